// SPDX-License-Identifier: Apache-2.0
/// From loads per expert to counts per source rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/routing/token_counts.hpp"

namespace sim {

/// Every rank has equally many tokens of each expert; the ones left over go to one rank after the
/// other, over all experts, so that the ranks' sums differ by at most 1.
[[nodiscard]] inline fssdp::token_counts split_loads(std::span<std::uint64_t const> loads,
                                                     int ranks) {
  auto const sources = static_cast<std::size_t>(ranks);
  auto values = std::vector<std::uint64_t>(sources * loads.size());
  auto next = std::size_t{0};
  for (std::size_t e = 0; e < loads.size(); ++e) {
    for (std::size_t rank = 0; rank < sources; ++rank)
      values[rank * loads.size() + e] = loads[e] / sources;
    for (auto left = loads[e] % sources; left > 0; --left) {
      ++values[next * loads.size() + e];
      next = (next + 1) % sources;
    }
  }
  return {ranks, static_cast<int>(loads.size()), std::move(values)};
}

}  // namespace sim
