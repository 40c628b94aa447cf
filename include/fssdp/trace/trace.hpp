// SPDX-License-Identifier: Apache-2.0
/// Traces: ranges of time with what a rank did in them.
///
/// `trace_recorder` stores them, `write_chrome_trace` writes a file that chrome://tracing and
/// ui.perfetto.dev show; other types can be a `trace_sink`, too.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

namespace fssdp {

/// Text that outlives every trace: only constants compile.
class static_text {
 public:
  constexpr static_text() = default;
  consteval static_text(char const* text) : text_{text} {}

  [[nodiscard]] constexpr std::string_view view() const { return text_; }
  [[nodiscard]] constexpr char const* c_str() const { return text_.data(); }
  friend bool operator==(static_text const&, static_text const&) = default;

 private:
  std::string_view text_ = "";  // null-terminated
};

/// A row in the timeline of a rank. Tracks of equal names are the same.
struct trace_track {
  static_text name = {};
  friend bool operator==(trace_track const&, trace_track const&) = default;
};

/// The tracks that the library writes to; users may add others.
inline constexpr auto compute_track = trace_track{"compute"};
inline constexpr auto gather_track = trace_track{"gather"};
inline constexpr auto reduce_track = trace_track{"reduce"};
inline constexpr auto dispatch_track = trace_track{"dispatch"};

/// An integer that may be unknown. A plain struct, as compilers warn about copies of an empty
/// std::optional.
class trace_number {
 public:
  constexpr trace_number() = default;
  template <std::integral Integer>
  constexpr trace_number(Integer value)
      : value_{static_cast<std::int64_t>(value)}, is_known_{true} {}

  [[nodiscard]] constexpr bool is_known() const { return is_known_; }
  /// 0 if it is unknown.
  [[nodiscard]] constexpr std::int64_t value() const { return value_; }
  /// Adds; an unknown number counts as 0.
  template <std::integral Integer>
  constexpr trace_number& operator+=(Integer more) {
    return *this = value_ + static_cast<std::int64_t>(more);
  }
  friend constexpr bool operator==(trace_number const&, trace_number const&) = default;

 private:
  std::int64_t value_ = 0;
  bool is_known_ = false;
};

/// The numbers that may be known of a range.
struct trace_numbers {
  trace_number layer = {};
  trace_number plan = {};   ///< hash of the plan, its 64 bits
  trace_number round = {};  ///< as in a batch_label
  trace_number messages_sent = {};
  trace_number bytes_sent = {};
  trace_number messages_received = {};
  trace_number bytes_received = {};
  friend bool operator==(trace_numbers const&, trace_numbers const&) = default;
};

/// What was done in a range of time.
struct traced_work {
  trace_track track = {};
  static_text name = {};
  trace_numbers numbers = {};
  friend bool operator==(traced_work const&, traced_work const&) = default;
};

/// The clock of all traces; its times are comparable within a host.
using trace_clock = std::chrono::steady_clock;

/// Work and its time.
/// @invariant begin <= end
struct trace_event {
  traced_work work = {};
  trace_clock::time_point begin = {};
  trace_clock::time_point end = {};
  friend bool operator==(trace_event const&, trace_event const&) = default;
};

/// A type that receives ranges. `open(work)` begins one and returns a small value, with which
/// `close(value, work)` ends it, on any thread; numbers may be added in between. Any number of
/// threads may call both at the same time. Neither throws, as ranges also end while an exception
/// propagates.
template <class Sink>
concept trace_sink = std::default_initializable<typename Sink::open_range> &&
    std::is_trivially_copyable_v<typename Sink::open_range> &&
    requires(Sink& sink, typename Sink::open_range const& opened, traced_work const& work) {
  { sink.open(work) } -> std::same_as<typename Sink::open_range>;
  requires noexcept(sink.open(work));
  requires noexcept(sink.close(opened, work));
};

/// A range that lasts as long as this object, or until `end`.
///
///     auto const range = trace_range{&sink, compute_track, "forward", {.layer = 3}};
///
/// If the sink is a null pointer, it does nothing: traced code needs no conditions.
/// @cost that of the sink; without one, a branch at either end
template <trace_sink Sink>
class [[nodiscard]] trace_range {
 public:
  trace_range(Sink* sink, trace_track track, static_text name,
              trace_numbers const& numbers = {}) noexcept
      : sink_{sink}, work_{track, name, numbers} {
    if (sink_ != nullptr) opened_ = sink_->open(work_);
  }
  trace_range(trace_range&& other) noexcept
      : sink_{std::exchange(other.sink_, nullptr)}, work_{other.work_}, opened_{other.opened_} {}
  trace_range& operator=(trace_range&&) = delete;
  ~trace_range() { end(); }

  /// Ends the range now; does nothing if it has ended.
  void end() noexcept {
    if (auto* const sink = std::exchange(sink_, nullptr)) sink->close(opened_, work_);
  }
  /// The numbers of the range, which can be set until it ends.
  [[nodiscard]] trace_numbers& numbers() noexcept { return work_.numbers; }

 private:
  Sink* sink_;
  traced_work work_;
  typename Sink::open_range opened_ = {};
};

}  // namespace fssdp
