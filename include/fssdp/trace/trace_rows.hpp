// SPDX-License-Identifier: Apache-2.0
/// Assigns overlapping ranges to rows in which they do not overlap.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "fssdp/trace/trace.hpp"

namespace fssdp::detail {

/// The row, from 0, of each event of one track. Within a row, ranges follow one another or nest,
/// which is all that viewers can draw; so threads that use one track at the same time get several
/// rows.
/// @pre the events are in the order of `trace_recorder::events`
/// @post each event is in the first row that is possible given the events before it
[[nodiscard]] inline std::vector<std::size_t> trace_rows(std::span<trace_event const> events) {
  auto open = std::vector<std::vector<trace_clock::time_point>>{};  // [rows]: ends, innermost last
  auto rows = std::vector<std::size_t>{};
  rows.reserve(events.size());
  auto const fits = [](std::vector<trace_clock::time_point>& ends, trace_event const& event) {
    while (!ends.empty() && ends.back() <= event.begin) ends.pop_back();
    return ends.empty() || event.end <= ends.back();
  };
  for (auto const& event : events) {
    auto row = std::size_t{0};
    while (row < open.size() && !fits(open[row], event)) ++row;
    if (row == open.size()) open.emplace_back();
    open[row].push_back(event.end);
    rows.push_back(row);
  }
  return rows;
}

}  // namespace fssdp::detail
