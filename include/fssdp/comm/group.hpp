// SPDX-License-Identifier: Apache-2.0
/// Groups of ranks: splits, and the ranks of the world that the ranks of a group are.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/comm/batch.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

/// The color of a rank that belongs to no group of a `split`: MPI_UNDEFINED, NCCL_SPLIT_NOCOLOR.
inline constexpr int no_color = -1;

namespace detail {

/// The arguments of a rank in a `split`.
struct split_choice {
  int color = no_color;
  int key = 0;
};
/// @throws argument_error unless the color is no_color, or 0 or more
void check_color(int color);
/// The label of the exchange of a split, so that a rank in another call is detected.
inline constexpr auto split_label = batch_label{.plan = 0x73706c6974, .round = 0};

/// The ranks with a color, ordered by key, then by rank.
/// @param choices [rank]
[[nodiscard]] std::vector<rank_id> ranks_of_color(std::span<split_choice const> choices, int color);

/// Maps the ranks of a communicator to ranks of the world. Errors name ranks of the world.
class group_ranks {
 public:
  /// All ranks of the world, or the first ones: their numbers are the same.
  explicit group_ranks(int size);
  /// @param world_ranks [ranks of the group]
  explicit group_ranks(std::vector<rank_id> world_ranks) : world_ranks_{std::move(world_ranks)} {}

  [[nodiscard]] int size() const { return static_cast<int>(world_ranks_.size()); }
  /// @pre it is a rank of the group
  [[nodiscard]] rank_id world_rank(rank_id rank) const { return world_ranks_[rank.index()]; }
  /// The same with a check of the argument.
  /// @throws argument_error unless it is a rank of the group
  [[nodiscard]] rank_id checked_world_rank(rank_id rank) const;
  /// "rank 5"; if the group has other numbers, "rank 5 (1 of its group)".
  [[nodiscard]] std::string name(rank_id rank) const;
  /// A group of some of these ranks.
  /// @param ranks [ranks of that group]: the ranks in this one
  [[nodiscard]] group_ranks of(std::span<rank_id const> ranks) const;

 private:
  [[nodiscard]] bool renumbered() const;

  std::vector<rank_id> world_ranks_;  // [ranks of the group]
};

/// Adds the messages of an all-gather of bytes: mine [n] to all others, all [size, n] from them.
/// The caller fills this rank's own row.
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

#ifndef FSSDP_COMPILED
#include "fssdp/comm/group_inl.hpp"
#endif
