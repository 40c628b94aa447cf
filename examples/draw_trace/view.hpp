// SPDX-License-Identifier: Apache-2.0
/// The part of a trace that is drawn.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "options.hpp"
#include "trace.hpp"

namespace draw {

/// Some ranks of a trace, from one time to another.
struct view {
  std::string title;
  trace ranks;
  double from;  ///< milliseconds
  double to;    ///< more than from
};

namespace detail {

[[nodiscard]] inline trace select(trace all, std::vector<std::int64_t> const& ranks) {
  if (ranks.empty()) return all;
  auto selected = trace{};
  for (auto const rank : ranks) {
    auto const found = all.find(rank);
    if (found == all.end()) {
      auto known = std::string{};
      for (auto const& [other, process] : all)
        known += fmt::format("{}{}", known.empty() ? "" : ", ", other);
      throw std::runtime_error{fmt::format("--ranks {}: the trace has {:.200}", rank, known)};
    }
    selected.insert(*found);
  }
  return selected;
}

}  // namespace detail

/// @throws std::runtime_error if the trace has nothing to show there
[[nodiscard]] inline view select(trace all, options const& of) {
  auto ranks = detail::select(std::move(all), of.ranks);
  auto const [first, last] = time_of(ranks);
  auto shown = view{of.title.empty() ? of.trace.filename().string() : of.title, std::move(ranks),
                    of.from.value_or(first), of.to.value_or(last)};
  if (first > of.to.value_or(first) || last < shown.from)
    throw std::runtime_error{
        fmt::format("no range from {:g} to {:g} ms; the trace has some from {:g} to {:g} ms",
                    shown.from, shown.to, first, last)};
  shown.to = std::max(shown.to, shown.from + 1e-6);
  return shown;
}

}  // namespace draw
