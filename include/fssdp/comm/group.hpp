// SPDX-License-Identifier: Apache-2.0
/// Groups of ranks: how a communicator is split, and which rank of the world a rank of a group is.
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

/// What a rank passes to `split`.
struct split_choice {
  int color = no_color;
  int key = 0;
};
/// @throws argument_error unless the color is no_color, or 0 or more
void check_color(int color);
/// What the exchange of a split is labelled with, so that a rank in another call is noticed.
inline constexpr auto split_label = batch_label{.plan = 0x73706c6974, .round = 0};

/// The ranks of a color, in the order of their keys; of equal keys, in that of the ranks.
/// @param choices [rank]
[[nodiscard]] std::vector<rank_id> ranks_of_color(std::span<split_choice const> choices, int color);

/// Which ranks of the world the ranks of a communicator are. Errors name ranks of the world.
class group_ranks {
 public:
  /// All ranks of the world, or the first ones: they have the same numbers.
  explicit group_ranks(int size);
  /// @param world_ranks [rank of the group]
  explicit group_ranks(std::vector<rank_id> world_ranks) : world_ranks_{std::move(world_ranks)} {}

  [[nodiscard]] int size() const { return static_cast<int>(world_ranks_.size()); }
  /// @pre it is a rank of the group
  [[nodiscard]] rank_id world_rank(rank_id rank) const { return world_ranks_[rank.index()]; }
  /// The same, for users.
  /// @throws argument_error unless it is a rank of the group
  [[nodiscard]] rank_id checked_world_rank(rank_id rank) const;
  /// "rank 5"; where the group numbers its ranks otherwise, "rank 5 (1 of its group)".
  [[nodiscard]] std::string name(rank_id rank) const;
  /// Some of these ranks as a group of their own.
  /// @param ranks [rank of that group]: the rank in this one
  [[nodiscard]] group_ranks of(std::span<rank_id const> ranks) const;

 private:
  [[nodiscard]] bool renumbered() const;

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

#ifndef FSSDP_COMPILED
#include "fssdp/comm/group_inl.hpp"
#endif
