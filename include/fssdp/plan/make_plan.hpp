// SPDX-License-Identifier: Apache-2.0
/// Chooses the transfers that realise a placement.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "fssdp/plan/direct_transfers.hpp"
#include "fssdp/plan/node_chain.hpp"
#include "fssdp/plan/simulate.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

namespace detail {

/// Builds the transfers of a node-aware plan, chunk by chunk.
class node_aware_transfers {
 public:
  node_aware_transfers(placement const& where, topology const& machine)
      : where_{where}, machine_{machine}, entries_(static_cast<std::size_t>(machine.ranks())) {}

  /// The other nodes that have a holder, ascending.
  [[nodiscard]] node_demand demand(expert_id expert, rank_id owner) const {
    auto result = node_demand{machine_.node(owner), {}};
    for (auto const node : first_n<node_id>(machine_.nodes()))
      if (node != result.home && !holders_on(node, expert).empty()) result.wanted.push_back(node);
    return result;
  }

  /// From the owner along the chain; on each node from the first holder to the others.
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
    for (auto const rank : machine_.ranks_on(node))
      if (where_.holds(rank, expert)) holders.push_back(rank);
    return holders;
  }

  /// The holder through which the fewest chunks enter its node so far; the lowest of equals.
  [[nodiscard]] rank_id entry(std::vector<rank_id> const& holders) {
    auto const least = *std::ranges::min_element(
        holders, {}, [&](rank_id rank) { return entries_[rank.index()]; });
    ++entries_[least.index()];
    return least;
  }

  void spread(chunk_id chunk, rank_id from, int round) {
    for (auto const rank : holders_on(machine_.node(from), chunk.expert))
      if (rank != from) transfers_.push_back({round, chunk, from, rank});
  }

  placement const& where_;
  topology const& machine_;
  std::vector<int> entries_;  // chunks that enter a node through each rank
  std::vector<transfer> transfers_;
};

/// Every chunk enters a node once and spreads from there; between nodes it travels along a chain, so
/// that no node sends it twice. The chains' ends are chosen to even out what the nodes send
/// (node_chains).
template <shard_layout Layout>
[[nodiscard]] transfer_plan node_aware_plan(Layout const& layout, placement const& where,
                                            topology const& machine) {
  auto build = node_aware_transfers{where, machine};
  auto demands = std::vector<node_demand>{};
  for (auto const chunk : all_chunks(layout))
    demands.push_back(build.demand(chunk.expert, layout.owner(chunk)));
  auto const chains = node_chains(demands, machine.nodes());
  auto chain = chains.begin();
  for (auto const chunk : all_chunks(layout)) build.follow(chunk, layout.owner(chunk), *chain++);
  return {layout, where, build.take(), machine};
}

/// Whether direct transfers may be the faster ones for chunks of some size from `least` bytes on.
///
/// The time of a plan (simulate) is that of the longest chain of transfers, so a convex function of
/// the bytes of a chunk: from `least` on it rises at most as steeply as without what messages cost,
/// and at least as steeply as on average up to there. If such a plan is not behind at `least`, and
/// never rises more steeply than direct transfers do on average, it stays ahead.
[[nodiscard]] inline bool direct_may_win(transfer_plan const& plan, std::size_t least) {
  auto const free_of_charge = message_cost{0, 0, 0};
  auto const rounding = 1 + 1e-12;
  auto const direct = direct_seconds(plan, least);
  return simulate(plan, least).seconds > direct * rounding ||
         simulate_with(plan, least, free_of_charge).seconds >
             (direct - direct_seconds(plan, 0)) * rounding;
}

}  // namespace detail

/// From this size of chunks on make_plan takes care not to be slower than direct transfers.
inline constexpr auto least_planned_bytes = std::size_t{4'000'000};

/// A plan of whole chunks: every chunk enters a node once and spreads from there, or, where that may
/// be slower, the direct plan.
///
/// Between nodes a chunk travels along a chain, so that no node sends it twice; the chains' ends
/// are chosen to even out what the nodes send (node_chains). In the direct plan the owner of every
/// chunk sends it to all other holders, in one round. It is taken on one node, without a topology,
/// and wherever the ports of the machine are such that chains might take longer than it for chunks
/// of `least_planned_bytes` or more: where interfaces are about as fast as ports inside a node, or
/// ports are unequal. Chunks of less are a matter of latency, which chains pay once for every node:
/// `schedule`, which is told the size, looks after them.
/// @pre the placement contains the layout; the topology has its ranks
/// @post verify(plan) accepts it; a transfer for every chunk and holder of its expert but its
///       owner; all from the owners, or between nodes only as many as there are (chunk, other node
///       that holds its expert); simulate(plan, bytes) takes no longer than simulate(
///       rank_ordered(plan), bytes) for any bytes >= least_planned_bytes
/// @cost at most `nodes` rounds; a pure function of its arguments
/// @throws argument_error if the three do not fit together
template <shard_layout Layout>
[[nodiscard]] transfer_plan make_plan(Layout const& layout, placement const& where,
                                      topology const& cluster = {}) {
  check_layout(layout);
  check_contains(where, layout);
  auto const machine = topology_or_one_node(cluster, layout.ranks());
  if (machine.nodes() == 1)
    return {layout, where, detail::direct_transfers(layout, where), machine};
  auto plan = detail::node_aware_plan(layout, where, machine);
  if (plan.rounds() > 1 && detail::direct_may_win(plan, least_planned_bytes))
    return plan.realised_by(detail::direct_transfers(plan, where), 1);
  return plan;
}

}  // namespace fssdp
