// SPDX-License-Identifier: Apache-2.0
/// Lost ranks of a communicator, and the remaining ones.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// The lost ranks, ascending.
/// @throws argument_error if one does not exist, is listed twice, or is this rank
[[nodiscard]] inline std::vector<rank_id> checked_lost(std::span<rank_id const> lost, rank_id me,
                                                       int size) {
  auto ranks = std::vector<rank_id>{};
  for (auto const rank : lost) {
    require(rank.value() >= 0 && rank.value() < size, "without: rank ", rank, " of ", size,
            " ranks; expected one from 0 to ", size - 1);
    require(std::ranges::find(ranks, rank) == ranks.end(), "without: rank ", rank,
            " twice; expected each rank once");
    ranks.push_back(rank);
  }
  std::ranges::sort(ranks);
  require(static_cast<int>(ranks.size()) < size, "without: all of ", size,
          " ranks, so that none is left; expected at most ", size - 1);
  require(!std::ranges::binary_search(ranks, me), "without: rank ", me,
          " is among the ranks that it leaves out; expected that only those that are left call");
  return ranks;
}

/// All ranks that are not lost, ascending.
/// @param lost ascending
[[nodiscard]] inline std::vector<rank_id> ranks_left(std::span<rank_id const> lost, int size) {
  auto left = std::vector<rank_id>{};
  for (auto const rank : first_n<rank_id>(size))
    if (!std::ranges::binary_search(lost, rank)) left.push_back(rank);
  return left;
}

}  // namespace fssdp::detail
