// SPDX-License-Identifier: Apache-2.0
/// Records the trace of one rank in memory that is allocated in advance.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/trace/trace.hpp"

namespace fssdp {

/// The rank of a trace, and its size.
struct trace_options {
  rank_id rank = {};              ///< the rank that is traced
  std::size_t capacity = 65'536;  ///< events that are stored; further ones are only counted
};

/// Records the ranges of all threads of a rank.
///
///     auto trace = trace_recorder{{.rank = comm.rank()}};
///     auto const range = trace.range(compute_track, "forward", {.layer = 3});
///
/// It must outlive its ranges, and may be moved only while none is open.
/// @cost per range: two readings of the clock, an atomic addition, a copy of the event; no lock, no
///       allocation. The recorder allocates `capacity` events of about 170 bytes
class trace_recorder {
 public:
  using open_range = trace_clock::time_point;

  /// @throws argument_error if capacity is 0 or too large to be counted
  explicit trace_recorder(trace_options const& options);
  trace_recorder(trace_recorder&& other) noexcept
      : rank_{other.rank_},
        capacity_{std::exchange(other.capacity_, 0)},
        slots_{std::move(other.slots_)},
        offered_{other.offered_.exchange(0)} {}
  trace_recorder& operator=(trace_recorder&&) = delete;
  ~trace_recorder() = default;

  [[nodiscard]] rank_id rank() const { return rank_; }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }

  /// A range from now until the end of its scope.
  [[nodiscard]] auto range(trace_track track, static_text name,
                           trace_numbers const& numbers = {}) noexcept {
    return trace_range{this, track, name, numbers};
  }

  [[nodiscard]] open_range open(traced_work const&) const noexcept { return trace_clock::now(); }
  void close(open_range const& begin, traced_work const& work) noexcept {
    record({.work = work, .begin = begin, .end = trace_clock::now()});
  }
  /// Records an event whose times are known.
  /// @pre event.begin <= event.end
  void record(trace_event const& event) noexcept {
    auto const at = offered_.fetch_add(1, std::memory_order_relaxed);
    if (at >= capacity_) return;
    slots_[at].event = event;
    slots_[at].is_complete.store(true, std::memory_order_release);
  }

  /// The events recorded so far, by their begin; of two with equal begin, the longer one first.
  /// Other threads may record meanwhile, so a rank that hangs can be inspected.
  [[nodiscard]] std::vector<trace_event> events() const;
  /// The number of events for which there was no room.
  [[nodiscard]] std::size_t dropped() const;
  /// Removes all events.
  /// @pre no thread records meanwhile; ranges may be open
  void clear() noexcept;

 private:
  struct slot {
    trace_event event;
    std::atomic<bool> is_complete = false;
  };

  [[nodiscard]] static std::size_t checked(std::size_t capacity);

  rank_id rank_;
  std::size_t capacity_;
  std::unique_ptr<slot[]> slots_;
  std::atomic<std::size_t> offered_ = 0;  // events, those without room included
};

static_assert(trace_sink<trace_recorder>);

trace_range(std::nullptr_t, trace_track, static_text, trace_numbers const& = {})
    ->trace_range<trace_recorder>;

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/trace/trace_recorder_inl.hpp"
#endif
