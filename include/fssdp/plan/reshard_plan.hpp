// SPDX-License-Identifier: Apache-2.0
/// The moves from one layout to another, in rounds that need little memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/hasher.hpp"
#include "fssdp/core/shared_value.hpp"
#include "fssdp/layout/shard_layout.hpp"
#include "fssdp/plan/edge_coloring.hpp"
#include "fssdp/plan/transfer_table.hpp"

namespace fssdp {

/// Which chunks change their owner, and in which round each of them travels. A handle on an
/// immutable value: a copy increments a reference count. Equal inputs give equal plans on every
/// rank.
///
/// Shards are full: a chunk takes the slot of one that leaves in the same round, or waits in
/// scratch until the round is over. No rank receives more than `scratch_slots` chunks in a round,
/// and none receives more than it can place. The moves are the edges of a bipartite graph of
/// senders and receivers. Coloring its edges (Koenig) takes as many colors as the busiest rank has
/// moves, and a round has `scratch_slots` colors.
/// @cost ceil(n / scratch_slots) rounds, where n is the largest number of chunks that leave or
///       enter a rank; O(ranks * n * (ranks + n)) time
class reshard_plan {
 public:
  struct options {
    int scratch_slots = 2;  ///< how many chunks a rank has room for besides its shard
  };

  /// @throws argument_error if a layout breaks its law, the layouts differ in experts, slices or
  ///         ranks, or scratch_slots is below 1
  template <shard_layout From, shard_layout To>
  reshard_plan(From const& from, To const& to, options const& how)
      : tables_{tables{from, to, how}} {}
  template <shard_layout From, shard_layout To>
  reshard_plan(From const& from, To const& to) : reshard_plan{from, to, options{}} {}

  [[nodiscard]] int ranks() const { return tables_->ranks; }
  [[nodiscard]] int rounds() const { return tables_->moves.rounds(); }
  [[nodiscard]] int scratch_slots() const { return tables_->scratch_slots; }
  /// All moves in canonical order.
  [[nodiscard]] std::span<transfer const> moves() const { return tables_->moves.all(); }
  /// What a rank sends (receives) in one round.
  [[nodiscard]] std::span<transfer const> sends(rank_id rank, int round) const {
    return tables_->moves.sends(rank, round);
  }
  [[nodiscard]] std::span<transfer const> receives(rank_id rank, int round) const {
    return tables_->moves.receives(rank, round);
  }
  /// The chunks of a rank in slot order, before and after.
  [[nodiscard]] std::span<chunk_id const> before(rank_id rank) const {
    return tables_->before.of(rank);
  }
  [[nodiscard]] std::span<chunk_id const> after(rank_id rank) const {
    return tables_->after.of(rank);
  }
  /// The slots that a rank's shard needs during the whole reshard.
  [[nodiscard]] std::size_t slots(rank_id rank) const {
    return std::max(before(rank).size(), after(rank).size());
  }
  /// 64 bits that differ, almost surely, if two plans do.
  [[nodiscard]] std::uint64_t hash_value() const { return tables_->hash; }

 private:
  /// Filled once, then only read.
  struct tables {
    template <class From, class To>
    tables(From const& from, To const& to, options const& how)
        : ranks{from.ranks()}, scratch_slots{how.scratch_slots} {
      check_layout(from);
      check_layout(to);
      detail::require(from.experts() == to.experts() && from.slices() == to.slices() &&
                          from.ranks() == to.ranks(),
                      "reshard: from ", from.experts(), " experts in ", from.slices(),
                      " slices on ", from.ranks(), " ranks to ", to.experts(), " in ", to.slices(),
                      " on ", to.ranks(), "; expected equal numbers");
      detail::require(scratch_slots >= 1, "reshard: scratch_slots is ", scratch_slots,
                      "; expected 1 or more");
      list_owned(from, before);
      list_owned(to, after);
      auto list = std::vector<transfer>{};
      for (auto const chunk : all_chunks(from))
        if (from.owner(chunk) != to.owner(chunk))
          list.push_back({0, chunk, from.owner(chunk), to.owner(chunk)});
      moves = {in_rounds(std::move(list)), ranks};
      hash = hashed();
    }

    template <class Layout>
    static void list_owned(Layout const& layout, detail::per_rank<chunk_id>& lists) {
      for (auto const rank : first_n<rank_id>(layout.ranks())) {
        for (chunk_id const chunk : layout.owned(rank)) lists.items.push_back(chunk);
        lists.close();
      }
    }

    /// Assigns a round to every move. Ranks with fewer moves than the busiest one get dummy moves,
    /// to themselves where possible, so that a full rank never receives in a round in which it
    /// sends nothing.
    [[nodiscard]] std::vector<transfer> in_rounds(std::vector<transfer> list) const {
      auto out = std::vector<int>(static_cast<std::size_t>(ranks));
      auto in = out;
      for (auto const& move : list) {
        ++out[move.source.index()];
        ++in[move.destination.index()];
      }
      auto const busiest = std::max(std::ranges::max(out), std::ranges::max(in));
      auto edges = std::vector<detail::edge_coloring::edge>{};
      for (auto const& move : list) edges.push_back({move.source, move.destination});
      auto const fill = [&](rank_id from, rank_id to, int count) {
        edges.insert(edges.end(), static_cast<std::size_t>(count), {from, to});
        out[from.index()] += count;
        in[to.index()] += count;
      };
      for (auto const rank : first_n<rank_id>(ranks))
        fill(rank, rank, busiest - std::max(out[rank.index()], in[rank.index()]));
      auto receiver = rank_id{0};
      for (auto const rank : first_n<rank_id>(ranks))
        while (out[rank.index()] < busiest) {
          while (in[receiver.index()] == busiest) ++receiver;
          fill(rank, receiver, 1);
        }
      auto const colors = detail::edge_coloring{ranks, busiest}.color(edges);
      for (std::size_t i = 0; i < list.size(); ++i) list[i].round = colors[i] / scratch_slots;
      return list;
    }

    [[nodiscard]] std::uint64_t hashed() const {
      auto sum = detail::hasher{};
      sum.mix(ranks);
      sum.mix(scratch_slots);
      for (auto const* lists : {&before, &after}) {
        for (auto const first : lists->begin) sum.mix(first);
        for (auto const& chunk : lists->items) {
          sum.mix(chunk.expert.value());
          sum.mix(chunk.slice.value());
        }
      }
      moves.mix_into(sum);
      return sum.value();
    }

    int ranks;
    int scratch_slots;
    detail::per_rank<chunk_id> before;
    detail::per_rank<chunk_id> after;
    detail::transfer_table moves;
    std::uint64_t hash = 0;
  };

  detail::shared_value<tables> tables_;
};

}  // namespace fssdp
