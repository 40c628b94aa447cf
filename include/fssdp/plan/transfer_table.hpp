// SPDX-License-Identifier: Apache-2.0
/// Transfers sorted by what each rank does in each round.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "fssdp/core/hasher.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/plan/transfer.hpp"

namespace fssdp::detail {

/// A list per rank, one after the other.
template <class T>
struct per_rank {
  std::vector<T> items;
  std::vector<std::size_t> begin = {0};
  void close() { begin.push_back(items.size()); }
  [[nodiscard]] std::span<T const> of(rank_id rank) const {
    return {items.data() + begin[rank.index()], begin[rank.index() + 1] - begin[rank.index()]};
  }
};

/// All transfers in canonical order, those of each rank, and those of each rank and round.
class transfer_table {
 public:
  transfer_table() = default;
  /// @pre all transfers name ranks below `ranks`
  transfer_table(std::vector<transfer> transfers, int ranks);

  /// Finds out which transfer brings what others pass on.
  /// @param position(piece) a number below `positions` for every piece
  template <class Position>
  void link(std::size_t positions, Position position);

  /// All that tells these transfers from others.
  void mix_into(hasher& hash) const;

  [[nodiscard]] int rounds() const { return rounds_; }
  [[nodiscard]] std::vector<transfer> const& all() const { return all_; }
  /// The position of the transfer that brings the piece to the source of each; -1: none does.
  [[nodiscard]] std::span<int const> feeders() const;
  /// Which of its sends pass on what a rank gets by its n-th receive, by position.
  [[nodiscard]] std::span<int const> followers(rank_id rank, std::size_t received) const;
  /// What a rank sends (receives), in canonical order.
  [[nodiscard]] std::span<transfer const> sends(rank_id rank) const;
  [[nodiscard]] std::span<transfer const> receives(rank_id rank) const;
  /// What it sends by round, then by piece and peer.
  [[nodiscard]] std::span<transfer const> batched_sends(rank_id rank) const;
  /// What it sends (receives) in one round, by piece and peer.
  [[nodiscard]] std::span<transfer const> sends(rank_id rank, int round) const;
  [[nodiscard]] std::span<transfer const> receives(rank_id rank, int round) const;

 private:
  /// The transfers of each rank at one of their ends: counted, then dealt out.
  [[nodiscard]] per_rank<transfer> dealt_out(rank_id transfer::*end, int ranks) const;
  /// The positions of all transfers, dealt out like the transfers.
  [[nodiscard]] std::vector<int> numbers(rank_id transfer::*end,
                                         std::vector<std::size_t> next) const;
  static per_rank<transfer> by_round(per_rank<transfer> table, int ranks);
  static std::span<transfer const> of_round(std::span<transfer const> list, int round);

  std::vector<transfer> all_;
  std::vector<int> feeders_;
  per_rank<int> followers_;  // a list per receive, of all ranks
  int rounds_ = 0;
  per_rank<transfer> sends_;
  per_rank<transfer> receives_;
  per_rank<transfer> batched_sends_;
  per_rank<transfer> batched_receives_;
};

}  // namespace fssdp::detail
