// SPDX-License-Identifier: Apache-2.0
/// What a plan knows: the transfers, and for every rank and chunk what follows from them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "fssdp/core/chunk.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/layout/shard_layout.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/hasher.hpp"
#include "fssdp/plan/transfer_table.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

class transfer_plan;

/// Over which kinds of links something travels.
struct link_use {
  bool between_nodes = false;
  bool inside_nodes = false;
  friend bool operator==(link_use const&, link_use const&) = default;
};

namespace detail {

/// The tables behind a transfer_plan, which says what each is. Filled once, then only read.
struct plan_tables {
  /// Everything but the transfers.
  /// @throws argument_error if the layout breaks its law, the placement does not contain it, or the
  ///         topology has other ranks
  template <shard_layout Layout>
  plan_tables(Layout const& layout, placement held, topology const& machine)
      : where{std::move(held)},
        cluster{topology_or_one_node(machine, where.ranks())},
        slices{layout.slices()} {
    check_layout(layout);
    check_contains(where, layout);
    owned.resize(static_cast<std::size_t>(where.ranks()));
    for (auto const chunk : all_chunks(layout)) {
      owner.push_back(layout.owner(chunk));
      slot.push_back(layout.slot(chunk));
      ++owned[owner.back().index()];
    }
    index_experts();
  }

  /// Replaces the transfers. Reductions go by them, too.
  /// @throws argument_error if a number of pieces, or what a transfer names, cannot be
  void take(std::vector<transfer> list, int into_pieces) {
    pieces = into_pieces;
    reduction.reset();
    require(pieces >= 1 && pieces <= most_pieces, "plan: ", pieces, " pieces; expected 1 to ",
            most_pieces);
    for (auto const& t : list) check(t, list.size());
    transfers = {std::move(list), where.ranks()};
    transfers.link(owner.size() * static_cast<std::size_t>(pieces), [this](piece_id piece) {
      return position(piece.chunk) * static_cast<std::size_t>(pieces) +
             static_cast<std::size_t>(piece.index);
    });
    index_sent();
    index_links();
    hash = hashed().value();
  }

  [[nodiscard]] std::size_t position(chunk_id chunk) const {
    return chunk.expert.index() * static_cast<std::size_t>(slices) + chunk.slice.index();
  }
  /// All that tells this gather from others.
  [[nodiscard]] hasher hashed() const {
    auto sum = hasher{};
    sum.mix(where.experts());
    sum.mix(slices, pieces);
    sum.mix(where.ranks());
    for (std::size_t e = 0; e < owner.size(); ++e) sum.mix(owner[e].value(), slot[e]);
    for (auto const first : materialized.begin) sum.mix(first);
    for (auto const expert : materialized.items) sum.mix(expert.value());
    transfers.mix_into(sum);
    return sum;
  }

  placement where;
  topology cluster;
  int slices;
  int pieces = 1;
  transfer_table transfers;
  std::vector<rank_id> owner;      // [chunks]
  std::vector<int> slot;           // [chunks]
  std::vector<link_use> links;     // [chunks]
  std::vector<std::size_t> owned;  // [ranks]: how many chunks
  std::uint64_t hash = 0;
  std::shared_ptr<transfer_plan const> reduction;  // null: the plan itself
  per_rank<expert_id> materialized;
  per_rank<expert_id> remote;
  per_rank<chunk_id> shared;
  per_rank<piece_id> forwarded;
  per_rank<piece_id> relayed;

 private:
  void check(transfer const& t, std::size_t count) const {
    auto const [expert, slice] = t.chunk;
    auto const ranks = where.ranks();
    auto const rank_ok = [&](rank_id r) { return r.value() >= 0 && r.value() < ranks; };
    require(expert.value() >= 0 && expert.value() < where.experts(), "plan: expert ", expert,
            "; expected 0 to ", where.experts() - 1);
    require(slice.value() >= 0 && slice.value() < slices, "plan: slice ", slice, "; expected 0 to ",
            slices - 1);
    require(rank_ok(t.source) && rank_ok(t.destination) && t.source != t.destination,
            "plan: transfer of slice ", slice, " of expert ", expert, " from rank ", t.source,
            " to rank ", t.destination, "; expected two different ranks from 0 to ", ranks - 1);
    require(t.piece >= 0 && t.piece < pieces, "plan: piece ", t.piece, "; expected 0 to ",
            pieces - 1);
    require(owner[position(t.chunk)] != t.destination, "plan: rank ", t.destination, " gets slice ",
            slice, " of expert ", expert, "; expected a rank that does not own it");
    require(t.round >= 0 && t.round < static_cast<int>(count), "plan: round ", t.round,
            "; expected 0 or more, and fewer rounds than transfers");
  }

  void index_experts() {
    for (auto const rank : first_n<rank_id>(where.ranks())) {
      for (auto const expert : first_n<expert_id>(where.experts())) {
        if (!where.holds(rank, expert)) continue;
        materialized.items.push_back(expert);
        auto const in_place = slices == 1 && owner[position(expert)] == rank;
        if (!in_place) remote.items.push_back(expert);
      }
      materialized.close();
      remote.close();
    }
  }

  /// What each rank sends, once each, by whether it owns it.
  void index_sent() {
    shared = {};
    forwarded = {};
    relayed = {};
    auto sent = std::vector<piece_id>{};
    for (auto const rank : first_n<rank_id>(where.ranks())) {
      sent.clear();
      for (auto const& t : transfers.sends(rank)) sent.push_back(t.what());
      std::ranges::sort(sent);
      sent.erase(std::unique(sent.begin(), sent.end()), sent.end());
      for (auto const& piece : sent) {
        if (owner[position(piece.chunk)] == rank) {
          if (shared.items.size() == shared.begin.back() || shared.items.back() != piece.chunk)
            shared.items.push_back(piece.chunk);
        } else {
          forwarded.items.push_back(piece);
          if (!where.holds(rank, piece.chunk.expert)) relayed.items.push_back(piece);
        }
      }
      shared.close();
      forwarded.close();
      relayed.close();
    }
  }

  void index_links() {
    links.assign(owner.size(), {});
    for (auto const& t : transfers.all()) {
      auto& used = links[position(t.chunk)];
      (cluster.same_node(t.source, t.destination) ? used.inside_nodes : used.between_nodes) = true;
    }
  }
};

}  // namespace detail
}  // namespace fssdp
