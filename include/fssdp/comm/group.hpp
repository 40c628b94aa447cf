// SPDX-License-Identifier: Apache-2.0
/// Groups of ranks: how a communicator is split, and which rank of the world a rank of a group is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/comm/batch.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

/// The color of a rank that belongs to no group of a `split`: MPI_UNDEFINED, NCCL_SPLIT_NOCOLOR.
inline constexpr int no_color = -1;

namespace detail {

/// What a rank passes to `split`.
struct split_choice {
  int color = no_color;
  int key = 0;
};
/// @throws argument_error unless the color is no_color, or 0 or more
inline void check_color(int color) {
  require(color >= no_color, "split: a color of ", color, "; expected 0 or more, or no_color (",
          no_color, ")");
}
/// What the exchange of a split is labelled with, so that a rank in another call is noticed.
inline constexpr auto split_label = batch_label{.plan = 0x73706c6974, .round = 0};

/// The ranks of a color, in the order of their keys; of equal keys, in that of the ranks.
/// @param choices [rank]
[[nodiscard]] inline std::vector<rank_id> ranks_of_color(std::span<split_choice const> choices,
                                                         int color) {
  auto ranks = std::vector<rank_id>{};
  for (std::size_t rank = 0; rank < choices.size(); ++rank)
    if (choices[rank].color == color) ranks.emplace_back(rank);
  std::ranges::stable_sort(ranks, {}, [&](rank_id rank) { return choices[rank.index()].key; });
  return ranks;
}

/// Which ranks of the world the ranks of a communicator are. Errors name ranks of the world.
class group_ranks {
 public:
  /// All ranks of the world, or the first ones: they have the same numbers.
  explicit group_ranks(int size) {
    for (auto const rank : first_n<rank_id>(size)) world_ranks_.push_back(rank);
  }
  /// @param world_ranks [rank of the group]
  explicit group_ranks(std::vector<rank_id> world_ranks) : world_ranks_{std::move(world_ranks)} {}

  [[nodiscard]] int size() const { return static_cast<int>(world_ranks_.size()); }
  /// @pre it is a rank of the group
  [[nodiscard]] rank_id world_rank(rank_id rank) const { return world_ranks_[rank.index()]; }
  /// The same, for users.
  /// @throws argument_error unless it is a rank of the group
  [[nodiscard]] rank_id checked_world_rank(rank_id rank) const {
    require(rank.value() >= 0 && rank.value() < size(), "world_rank: rank ", rank,
            "; expected one from 0 to ", size() - 1);
    return world_rank(rank);
  }
  /// "rank 5"; where the group numbers its ranks otherwise, "rank 5 (1 of its group)".
  [[nodiscard]] std::string name(rank_id rank) const {
    auto const here = world_rank(rank);
    return renumbered() ? text("rank ", here, " (", rank, " of its group)") : text("rank ", here);
  }
  /// Some of these ranks as a group of their own.
  /// @param ranks [rank of that group]: the rank in this one
  [[nodiscard]] group_ranks of(std::span<rank_id const> ranks) const {
    auto chosen = std::vector<rank_id>{};
    for (auto const rank : ranks) chosen.push_back(world_rank(rank));
    return group_ranks{std::move(chosen)};
  }

 private:
  [[nodiscard]] bool renumbered() const {
    for (std::size_t rank = 0; rank < world_ranks_.size(); ++rank)
      if (world_ranks_[rank].index() != rank) return true;
    return false;
  }

  std::vector<rank_id> world_ranks_;  // [rank of the group]
};

/// Names the messages of an all-gather of bytes: mine [n] to all others, all [size, n] from them.
/// This rank's own row is the caller's to fill.
template <class Batch>
void name_values(Batch& batch, rank_id me, int size, std::span<std::byte const> mine,
                 std::span<std::byte> all) {
  for (auto const peer : first_n<rank_id>(size)) {
    if (peer == me) continue;
    batch.send(mine, peer);
    batch.recv(all.subspan(peer.index() * mine.size(), mine.size()), peer);
  }
}

}  // namespace detail
}  // namespace fssdp
