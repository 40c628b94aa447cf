// SPDX-License-Identifier: Apache-2.0
/// Keeps the trace of one rank in memory given up front.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/trace/trace.hpp"

namespace fssdp {

/// Whose trace is recorded, and how much of it.
struct trace_options {
  rank_id rank = {};              ///< whose trace it is
  std::size_t capacity = 65'536;  ///< events that it keeps; those behind them are counted
};

/// Records the ranges of all threads of a rank.
///
///     auto trace = trace_recorder{{.rank = comm.rank()}};
///     auto const range = trace.range(compute_track, "forward", {.layer = 3});
///
/// It must outlive its ranges, and is moved only while none is open.
/// @cost of a range: two readings of the clock, an atomic addition, a copy of the event; no lock,
///       no allocation. Of the recorder: an allocation of `capacity` events of some 170 bytes
class trace_recorder {
 public:
  using open_range = trace_clock::time_point;

  /// @throws argument_error unless there is room for one event, and for no more than can be counted
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
  /// For times that are known from elsewhere.
  /// @pre event.begin <= event.end
  void record(trace_event const& event) noexcept {
    auto const at = offered_.fetch_add(1, std::memory_order_relaxed);
    if (at >= capacity_) return;
    slots_[at].event = event;
    slots_[at].is_complete.store(true, std::memory_order_release);
  }

  /// Those recorded so far, by their begin; of two that begin at once, the longer one first. Others
  /// may record meanwhile: so a rank that hangs can still be looked at.
  [[nodiscard]] std::vector<trace_event> events() const;
  /// How many events found no room.
  [[nodiscard]] std::size_t dropped() const;
  /// Forgets everything.
  /// @pre nobody records meanwhile; ranges may be open
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
