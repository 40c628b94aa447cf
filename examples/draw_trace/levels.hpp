// SPDX-License-Identifier: Apache-2.0
/// What of a row is drawn: what nests stands below each other, what is too narrow stands together.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "trace.hpp"

namespace draw {

/// A time window and how many milliseconds are the least that can be seen in it.
struct window {
  double from;
  double to;
  double least;
};

namespace detail {

inline constexpr auto most_levels = std::size_t{8};
inline constexpr auto rounding = 5e-7;  ///< milliseconds by which written times are off

/// Adds a range after those of a level; one that is too narrow joins its narrow neighbour, if no
/// gap between them can be seen.
inline void append(std::vector<bar>& level, bar const& next, double least) {
  auto const narrow = [&](bar const& one) { return one.end - one.begin < least; };
  auto const joins = !level.empty() && narrow(next) && next.begin - level.back().end < least &&
                     (level.back().ranges > 1 || narrow(level.back()));
  if (!joins) {
    level.push_back(next);
    return;
  }
  auto& crumbs = level.back();
  crumbs.end = std::max(crumbs.end, next.end);
  crumbs.layer.reset();
  crumbs.name = fmt::format("{} ranges", ++crumbs.ranges);
  crumbs.details.clear();
}

}  // namespace detail

/// The ranges of a row that are in a window, by how many others they are in, at most 8: [level].
/// @post no two of a level overlap, and fewer of them than 6 * (to - from) / least
[[nodiscard]] inline std::vector<std::vector<bar>> levels_of(row const& of, window const& seen) {
  auto levels = std::vector<std::vector<bar>>{};
  auto open = std::vector<double>{};  // ends of the ranges that may contain the next one
  for (auto const& one : of.bars) {
    while (!open.empty() && open.back() <= one.begin + detail::rounding) open.pop_back();
    auto const level = open.size();
    open.push_back(one.end);
    if (level >= detail::most_levels || one.end < seen.from || one.begin > seen.to) continue;
    if (level >= levels.size()) levels.resize(level + 1);
    detail::append(levels[level], one, seen.least);
  }
  return levels;
}

}  // namespace draw
