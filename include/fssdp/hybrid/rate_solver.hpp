// SPDX-License-Identifier: Apache-2.0
/// Chooses how much each part of a model is compressed, within an error budget.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"

namespace fssdp {

/// The costs of candidates: [classes][candidates], equally many for all classes. A class is what is
/// compressed in the same way, such as one tensor of all experts of a layer.
struct rate_table {
  std::vector<std::vector<std::uint64_t>> bytes;
  std::vector<std::vector<double>> errors;  ///< |x - own|, as measured recently
  std::size_t usual = 0;                    ///< the default candidate of all classes
};

/// The error budget, and its resolution.
struct rate_options {
  double tolerance = 1;          ///< the budget, as a multiple of the total error of the default
  std::size_t buckets = 10'000;  ///< errors are rounded up to budget / buckets
};

/// Chooses a candidate for each class: the fewest bytes such that the total error is within the
/// budget; of equal choices the one with the smallest error, then the first candidates. Returns the
/// default if nothing fits, or if it has fewer bytes, which is possible as errors are rounded up.
/// @cost classes * candidates * buckets time, classes * buckets memory; a pure function
/// @throws argument_error if the table has no classes, rows of different lengths, or the default
///         candidate does not exist
/// (L-GreCo, arXiv 2210.17357)
[[nodiscard]] inline std::vector<std::size_t> choose_rates(rate_table const& of,
                                                           rate_options const& options = {}) {
  auto const classes = of.bytes.size();
  detail::require(classes > 0 && of.errors.size() == classes, "choose_rates: ", classes,
                  " classes with bytes and ", of.errors.size(),
                  " with errors; expected as many, and at least one");
  auto const candidates = of.bytes.front().size();
  detail::require(of.usual < candidates, "choose_rates: candidate ", of.usual,
                  " by default; expected one of ", candidates);
  for (std::size_t l = 0; l < classes; ++l)
    detail::require(of.bytes[l].size() == candidates && of.errors[l].size() == candidates,
                    "choose_rates: class ", l, " has ", of.bytes[l].size(),
                    " numbers of bytes and ", of.errors[l].size(), " errors; expected ",
                    candidates);
  detail::require(options.tolerance >= 0 && options.buckets >= 1, "choose_rates: tolerance is ",
                  options.tolerance, " and buckets ", options.buckets,
                  "; expected 0 or more, and 1 or more");

  auto const usual = std::vector<std::size_t>(classes, of.usual);
  auto budget = 0.0;
  auto usual_bytes = std::uint64_t{0};
  for (std::size_t l = 0; l < classes; ++l) {
    budget += options.tolerance * of.errors[l][of.usual];
    usual_bytes += of.bytes[l][of.usual];
  }
  if (!(budget > 0) || !std::isfinite(budget)) return usual;
  auto const bucket = budget / static_cast<double>(options.buckets);
  auto const cost = [&](std::size_t l, std::size_t c) {  // at least 1, so that no class is free
    auto const count = std::max(1.0, std::ceil(of.errors[l][c] / bucket));
    return count <= static_cast<double>(options.buckets) ? static_cast<std::size_t>(count)
                                                         : options.buckets + 1;
  };

  // best[b]: for the classes from l on, with at most b buckets
  using total = std::pair<std::uint64_t, double>;  // bytes, error
  constexpr auto none = total{std::numeric_limits<std::uint64_t>::max(), 0};
  auto best = std::vector<total>(options.buckets + 1);
  auto choice = std::vector<std::vector<std::uint32_t>>(classes);
  for (auto l = classes; l-- != 0;) {
    auto now = std::vector<total>(options.buckets + 1, none);
    choice[l].resize(options.buckets + 1);
    for (std::size_t c = 0; c < candidates; ++c) {
      auto const taken = cost(l, c);
      for (auto b = taken; b <= options.buckets; ++b) {
        auto const& rest = best[b - taken];
        if (rest.first == none.first) continue;
        auto const sum = total{rest.first + of.bytes[l][c], rest.second + of.errors[l][c]};
        if (sum < now[b]) {
          now[b] = sum;
          choice[l][b] = static_cast<std::uint32_t>(c);
        }
      }
    }
    best = std::move(now);
  }
  if (best[options.buckets].first > usual_bytes) return usual;
  auto chosen = std::vector<std::size_t>{};
  for (std::size_t l = 0, left = options.buckets; l < classes; ++l) {
    chosen.push_back(choice[l][left]);
    left -= cost(l, chosen.back());
  }
  return chosen;
}

}  // namespace fssdp
