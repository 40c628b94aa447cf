// SPDX-License-Identifier: Apache-2.0
/// Transfers sorted by rank and round.
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

/// All transfers in canonical order; those of each rank; those of each rank and round.
class transfer_table {
 public:
  transfer_table() = default;
  /// @pre the ranks of all transfers are below `ranks`
  transfer_table(std::vector<transfer> transfers, int ranks);

  /// Finds, for each transfer, the one that brings the piece to its source.
  /// @param position(piece) a number below `positions` for every piece
  template <class Position>
  void link(std::size_t positions, Position position);

  /// Adds everything that distinguishes these transfers from others to a hash.
  void mix_into(hasher& hash) const;

  [[nodiscard]] int rounds() const { return rounds_; }
  [[nodiscard]] std::vector<transfer> const& all() const { return all_; }
  /// For each transfer, the index of the one that brings the piece to its source; -1: none does.
  [[nodiscard]] std::span<int const> feeders() const;
  /// The indices of the sends that pass on what a rank gets by its n-th receive.
  [[nodiscard]] std::span<int const> followers(rank_id rank, std::size_t received) const;
  /// The sends (receives) of a rank, in canonical order.
  [[nodiscard]] std::span<transfer const> sends(rank_id rank) const;
  [[nodiscard]] std::span<transfer const> receives(rank_id rank) const;
  /// The sends of a rank by round, then by piece and peer.
  [[nodiscard]] std::span<transfer const> batched_sends(rank_id rank) const;
  /// The sends (receives) of a rank in one round, by piece and peer.
  [[nodiscard]] std::span<transfer const> sends(rank_id rank, int round) const;
  [[nodiscard]] std::span<transfer const> receives(rank_id rank, int round) const;

 private:
  /// The transfers of each rank at one of their ends, by counting sort.
  [[nodiscard]] per_rank<transfer> dealt_out(rank_id transfer::*end, int ranks) const;
  /// The indices of all transfers, sorted in the same way.
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
