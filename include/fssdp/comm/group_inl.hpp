// SPDX-License-Identifier: Apache-2.0
/// Builds groups, and names their ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/comm/group.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"

namespace fssdp::detail {

FSSDP_INLINE void check_color(int color) {
  require(color >= no_color, "split: a color of ", color, "; expected 0 or more, or no_color (",
          no_color, ")");
}

FSSDP_INLINE std::vector<rank_id> ranks_of_color(std::span<split_choice const> choices, int color) {
  auto ranks = std::vector<rank_id>{};
  for (std::size_t rank = 0; rank < choices.size(); ++rank)
    if (choices[rank].color == color) ranks.emplace_back(rank);
  std::stable_sort(ranks.begin(), ranks.end(), [&](rank_id a, rank_id b) {
    return choices[a.index()].key < choices[b.index()].key;
  });
  return ranks;
}

FSSDP_INLINE group_ranks::group_ranks(int size) {
  for (auto const rank : first_n<rank_id>(size)) world_ranks_.push_back(rank);
}

FSSDP_INLINE rank_id group_ranks::checked_world_rank(rank_id rank) const {
  require(rank.value() >= 0 && rank.value() < size(), "world_rank: rank ", rank,
          "; expected one from 0 to ", size() - 1);
  return world_rank(rank);
}

FSSDP_INLINE std::string group_ranks::name(rank_id rank) const {
  auto const here = world_rank(rank);
  return renumbered() ? text("rank ", here, " (", rank, " of its group)") : text("rank ", here);
}

FSSDP_INLINE group_ranks group_ranks::of(std::span<rank_id const> ranks) const {
  auto chosen = std::vector<rank_id>{};
  for (auto const rank : ranks) chosen.push_back(world_rank(rank));
  return group_ranks{std::move(chosen)};
}

FSSDP_INLINE bool group_ranks::renumbered() const {
  for (std::size_t rank = 0; rank < world_ranks_.size(); ++rank)
    if (world_ranks_[rank].index() != rank) return true;
  return false;
}

}  // namespace fssdp::detail
