// SPDX-License-Identifier: Apache-2.0
/// Deals ranges that overlap out to rows in which they do not.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "fssdp/trace/trace.hpp"

namespace fssdp::detail {

/// For each event of one track, a row from 0. In a row, any two ranges follow each other or nest:
/// all that viewers can draw there. Threads that work in one track at once so come into several.
/// @pre the events are in the order of `trace_recorder::events`
/// @post as early a row as those before an event leave to it
[[nodiscard]] inline std::vector<std::size_t> trace_rows(std::span<trace_event const> events) {
  auto open = std::vector<std::vector<trace_clock::time_point>>{};  // [row]: ends, the inner last
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
