// SPDX-License-Identifier: Apache-2.0
/// What a file of a trace says, ready to be drawn.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace draw {

/// A range of time. Times are in milliseconds.
struct bar {
  double begin = 0;
  double end = 0;
  std::string name = {};
  std::string comm = {};  ///< which gives the colour
  std::string details = {};
  std::optional<std::int64_t> layer = {};
  std::size_t ranges = 1;  ///< how many are drawn as one
};

/// The ranges of one track of a rank, in the order of their begin, outer ones first.
struct row {
  std::string name = {};
  std::vector<bar> bars = {};
};

struct process {
  std::string name = {};
  std::string remark = {};                ///< events that were dropped
  std::map<std::int64_t, row> rows = {};  ///< by thread
};

/// By rank.
using trace = std::map<std::int64_t, process>;

/// The first begin and the last end.
[[nodiscard]] inline std::pair<double, double> time_of(trace const& of) {
  auto time = std::optional<std::pair<double, double>>{};
  for (auto const& [rank, process] : of)
    for (auto const& [thread, row] : process.rows)
      for (auto const& bar : row.bars) {
        if (!time) time.emplace(bar.begin, bar.end);
        time->first = std::min(time->first, bar.begin);
        time->second = std::max(time->second, bar.end);
      }
  return time.value_or(std::pair{0.0, 0.0});
}

}  // namespace draw
