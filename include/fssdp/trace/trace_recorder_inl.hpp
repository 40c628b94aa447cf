// SPDX-License-Identifier: Apache-2.0
/// Reads the events of a trace.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/trace/trace.hpp"
#include "fssdp/trace/trace_recorder.hpp"

namespace fssdp {

FSSDP_INLINE trace_recorder::trace_recorder(trace_options const& options)
    : rank_{options.rank},
      capacity_{checked(options.capacity)},
      slots_{std::make_unique<slot[]>(options.capacity)} {}

FSSDP_INLINE std::vector<trace_event> trace_recorder::events() const {
  auto complete = std::vector<trace_event>{};
  auto const used = std::min(offered_.load(std::memory_order_relaxed), capacity_);
  complete.reserve(used);
  for (std::size_t i = 0; i < used; ++i)
    if (slots_[i].is_complete.load(std::memory_order_acquire)) complete.push_back(slots_[i].event);
  std::ranges::stable_sort(complete, {}, [](trace_event const& event) {
    return std::pair{event.begin, -event.end.time_since_epoch()};
  });
  return complete;
}

FSSDP_INLINE std::size_t trace_recorder::dropped() const {
  auto const offered = offered_.load(std::memory_order_relaxed);
  return offered - std::min(offered, capacity_);
}

FSSDP_INLINE void trace_recorder::clear() noexcept {
  for (std::size_t i = 0; i < std::min(offered_.load(), capacity_); ++i)
    slots_[i].is_complete = false;
  offered_ = 0;
}

FSSDP_INLINE std::size_t trace_recorder::checked(std::size_t capacity) {
  constexpr auto most = std::numeric_limits<std::size_t>::max() / 2 / sizeof(slot);
  detail::require(capacity > 0 && capacity <= most, "trace_recorder: a capacity of ", capacity,
                  " events; expected 1 to ", most);
  return capacity;
}

}  // namespace fssdp
