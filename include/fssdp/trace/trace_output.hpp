// SPDX-License-Identifier: Apache-2.0
/// A type-erased pointer to a trace_sink, or none, for options.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>

#include "fssdp/trace/trace.hpp"

namespace fssdp {

/// Passes ranges on to the sink that it points to.
///
///     auto const options = materializer_options{.trace = &sink};
///
/// If made of a null pointer, or default-constructed, it does nothing.
/// @pre the sink outlives it and the ranges
/// @cost per range: that of the sink, and two calls through pointers; no allocation
class trace_output {
 public:
  struct open_range {
    alignas(std::max_align_t) std::array<std::byte, 16> bytes;
  };

  trace_output() = default;
  template <trace_sink Sink>
  requires(sizeof(typename Sink::open_range) <= sizeof(open_range)) trace_output(Sink* sink)
      : sink_{sink} {
    if (sink == nullptr) return;
    open_ = [](void* to, traced_work const& work) noexcept {
      auto const opened = static_cast<Sink*>(to)->open(work);
      auto erased = open_range{};
      std::memcpy(erased.bytes.data(), &opened, sizeof(opened));
      return erased;
    };
    close_ = [](void* to, open_range const& erased, traced_work const& work) noexcept {
      auto opened = typename Sink::open_range{};
      std::memcpy(&opened, erased.bytes.data(), sizeof(opened));
      static_cast<Sink*>(to)->close(opened, work);
    };
  }

  [[nodiscard]] open_range open(traced_work const& work) const noexcept {
    return open_ == nullptr ? open_range{} : open_(sink_, work);
  }
  void close(open_range const& opened, traced_work const& work) const noexcept {
    if (close_ != nullptr) close_(sink_, opened, work);
  }

 private:
  void* sink_ = nullptr;
  open_range (*open_)(void*, traced_work const&) noexcept = nullptr;
  void (*close_)(void*, open_range const&, traced_work const&) noexcept = nullptr;
};

static_assert(trace_sink<trace_output>);

}  // namespace fssdp
