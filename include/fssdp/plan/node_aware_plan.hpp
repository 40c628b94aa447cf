// SPDX-License-Identifier: Apache-2.0
/// Plans in which every chunk enters a node once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "fssdp/core/chunk.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/direct_transfers.hpp"
#include "fssdp/plan/node_chain.hpp"
#include "fssdp/plan/plan_tables.hpp"
#include "fssdp/plan/simulate.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp::detail {

/// The owners of plan_tables, as those of a layout.
class table_owners {
 public:
  explicit table_owners(plan_tables const& of) : of_{of} {}
  [[nodiscard]] int experts() const { return of_.where.experts(); }
  [[nodiscard]] int slices() const { return of_.slices; }
  [[nodiscard]] rank_id owner(chunk_id chunk) const { return of_.owner[of_.position(chunk)]; }
  [[nodiscard]] chunk_range chunks() const { return {0, experts() * slices(), slices()}; }

 private:
  plan_tables const& of_;
};

/// Builds the transfers of a node-aware plan, chunk by chunk.
class node_aware_transfers {
 public:
  node_aware_transfers(placement const& where, topology const& topo)
      : where_{where}, topo_{topo}, entries_(static_cast<std::size_t>(topo.ranks())) {}

  /// The other nodes with holders, ascending.
  [[nodiscard]] node_demand demand(expert_id expert, rank_id owner) const {
    auto result = node_demand{topo_.node(owner), {}};
    for (auto const node : first_n<node_id>(topo_.nodes()))
      if (node != result.owner_node && !holders_on(node, expert).empty())
        result.wanted.push_back(node);
    return result;
  }

  /// The transfers of a chunk: from the owner along the chain; on each node from its first holder
  /// to the others.
  void follow(chunk_id chunk, rank_id owner, std::vector<node_id> const& chain) {
    auto from = owner;
    auto round = 0;
    for (auto const node : chain) {
      spread(chunk, from, round);
      auto const next = entry(holders_on(node, chunk.expert));
      transfers_.push_back({round, chunk, from, next});
      from = next;
      ++round;
    }
    spread(chunk, from, round);
  }

  [[nodiscard]] std::vector<transfer> take() { return std::move(transfers_); }

 private:
  [[nodiscard]] std::vector<rank_id> holders_on(node_id node, expert_id expert) const {
    auto holders = std::vector<rank_id>{};
    for (auto const rank : topo_.ranks_on(node))
      if (where_.holds(rank, expert)) holders.push_back(rank);
    return holders;
  }

  /// The holder through which fewest chunks have entered its node so far; of equal ones, the
  /// lowest.
  [[nodiscard]] rank_id entry(std::vector<rank_id> const& holders) {
    auto const least = *std::ranges::min_element(
        holders, {}, [&](rank_id rank) { return entries_[rank.index()]; });
    ++entries_[least.index()];
    return least;
  }

  void spread(chunk_id chunk, rank_id from, int round) {
    for (auto const rank : holders_on(topo_.node(from), chunk.expert))
      if (rank != from) transfers_.push_back({round, chunk, from, rank});
  }

  placement const& where_;
  topology const& topo_;
  std::vector<int> entries_;  // [ranks]: chunks that enter a node through each
  std::vector<transfer> transfers_;
};

/// Every chunk enters each node once and spreads from there. Between nodes it travels along a
/// chain, so that no node sends it twice; the last nodes of the chains are chosen to balance what
/// nodes send
/// (node_chains).
[[nodiscard]] inline transfer_plan node_aware_plan(plan_tables tables) {
  auto const owners = table_owners{tables};
  auto build = node_aware_transfers{tables.where, tables.topology};
  auto demands = std::vector<node_demand>{};
  for (auto const chunk : owners.chunks())
    demands.push_back(build.demand(chunk.expert, owners.owner(chunk)));
  auto const chains = node_chains(demands, tables.topology.nodes());
  auto chain = chains.begin();
  for (auto const chunk : owners.chunks()) build.follow(chunk, owners.owner(chunk), *chain++);
  auto transfers = build.take();
  return {std::move(tables), std::move(transfers)};
}

/// Whether direct transfers may be faster for chunks of some size of `least` bytes or more.
///
/// The time of a plan (simulate) is that of its longest chain of transfers: a convex function of
/// the bytes of a chunk. Above `least`, its slope is at most that without overhead per message, and
/// at least the average slope up to `least`. So if this plan is not slower at `least`, and its
/// largest slope is not above the average slope of direct transfers, it is never slower.
[[nodiscard]] inline bool direct_may_win(transfer_plan const& plan, std::size_t least) {
  auto const free_of_charge = message_cost{0, 0, 0};
  auto const rounding = 1 + 1e-12;
  auto const direct = direct_seconds(plan, least);
  return simulate(plan, least).seconds > direct * rounding ||
         simulate_with(plan, least, free_of_charge).seconds >
             (direct - direct_seconds(plan, 0)) * rounding;
}

}  // namespace fssdp::detail
