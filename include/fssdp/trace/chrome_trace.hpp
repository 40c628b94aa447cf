// SPDX-License-Identifier: Apache-2.0
/// Writes traces as JSON that chrome://tracing and ui.perfetto.dev show.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/trace/chrome_writer.hpp"
#include "fssdp/trace/trace.hpp"
#include "fssdp/trace/trace_recorder.hpp"
#include "fssdp/trace/trace_rows.hpp"

namespace fssdp {

namespace detail {

/// The events of one track of one rank, each with its row.
struct traced_track {
  std::vector<trace_event> events = {};
  std::vector<std::size_t> rows = {};  ///< [events]
};
struct traced_rank {
  rank_id rank = {};
  std::size_t dropped = 0;
  std::map<std::string_view, traced_track> tracks = {};
};

[[nodiscard]] inline traced_rank by_track(trace_recorder const& trace) {
  auto sorted = traced_rank{.rank = trace.rank(), .dropped = trace.dropped()};
  for (auto const& event : trace.events())
    sorted.tracks[event.work.track.name.view()].events.push_back(event);
  for (auto& [name, track] : sorted.tracks) track.rows = trace_rows(track.events);
  return sorted;
}

/// The number of rows of each track, as the maximum over all ranks.
[[nodiscard]] inline std::map<std::string_view, std::size_t> row_counts(
    std::span<traced_rank const> ranks) {
  auto counts = std::map<std::string_view, std::size_t>{};
  for (auto const& rank : ranks)
    for (auto const& [name, track] : rank.tracks)
      counts[name] = std::max(counts[name], std::ranges::max(track.rows) + 1);
  return counts;
}

inline void write_rank(chrome_writer& writer, traced_rank const& of,
                       std::map<std::string_view, std::size_t> const& counts) {
  writer.metadata("process_name", of.rank, 0, "name", text("rank ", of.rank));
  writer.metadata("process_sort_index", of.rank, 0, "sort_index", of.rank.value());
  if (of.dropped > 0)
    writer.metadata("process_labels", of.rank, 0, "labels", text(of.dropped, " events dropped"));
  auto first = std::size_t{0};
  for (auto const& [name, count] : counts) {
    auto const track = of.tracks.find(name);
    auto const used = track == of.tracks.end() ? 0 : std::ranges::max(track->second.rows) + 1;
    for (std::size_t row = 0; row < used; ++row) {
      writer.metadata("thread_name", of.rank, first + row, "name",
                      row == 0 ? std::string{name} : text(name, " ", row + 1));
      writer.metadata("thread_sort_index", of.rank, first + row, "sort_index", first + row);
    }
    if (used > 0)
      for (std::size_t i = 0; i < track->second.events.size(); ++i)
        writer.range(of.rank, first + track->second.rows[i], track->second.events[i]);
    first += count;
  }
}

}  // namespace detail

/// Writes the traces of some ranks as JSON of the Trace Event Format: a process for each rank; a
/// thread for each track, in alphabetical order, and more of them ("gather 2") where ranges of a
/// track overlap without nesting. Times are in microseconds from the first event.
/// @post valid JSON, whatever the names; the caller checks the state of `out`
/// @throws argument_error if two traces are of the same rank
inline void write_chrome_trace(std::ostream& out, std::span<trace_recorder const> traces) {
  auto ranks = std::vector<detail::traced_rank>{};
  auto zero = trace_clock::time_point::max();
  for (auto const& trace : traces) {
    ranks.push_back(detail::by_track(trace));
    for (auto const& [name, track] : ranks.back().tracks)
      zero = std::min(zero, track.events.front().begin);
  }
  std::ranges::sort(ranks, {}, &detail::traced_rank::rank);
  auto const twice = std::ranges::adjacent_find(ranks, {}, &detail::traced_rank::rank);
  detail::require(twice == ranks.end(), "write_chrome_trace: two traces of rank ",
                  twice == ranks.end() ? -1 : twice->rank.value(), "; expected one of each rank");
  auto const counts = detail::row_counts(ranks);
  auto writer = detail::chrome_writer{out, zero};
  for (auto const& rank : ranks) detail::write_rank(writer, rank, counts);
  writer.finish();
}

}  // namespace fssdp
