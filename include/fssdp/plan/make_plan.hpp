// SPDX-License-Identifier: Apache-2.0
/// Chooses the transfers that realise a placement.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "fssdp/cluster/topology.hpp"
#include "fssdp/plan/node_chain.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

namespace detail {

/// The owner of every chunk sends it to all other holders of its expert.
template <shard_layout Layout>
[[nodiscard]] std::vector<transfer> direct_transfers(Layout const& layout, placement const& where) {
  auto transfers = std::vector<transfer>{};
  for (auto const chunk : all_chunks(layout))
    for (auto const rank : where.holders(chunk.expert))
      if (rank != layout.owner(chunk)) transfers.push_back({0, chunk, layout.owner(chunk), rank});
  return transfers;
}

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

}  // namespace detail

/// A plan of whole chunks: every chunk enters a node once and spreads from there.
///
/// Between nodes a chunk travels along a chain, so that no node sends it twice; the chains' ends
/// are chosen to even out what the nodes send (node_chains). On one node, or without a topology,
/// this is the direct plan: the owner of every chunk sends it to all other holders, in one round.
/// @pre the placement contains the layout; the topology has its ranks
/// @post verify(plan) accepts it; a transfer for every chunk and holder of its expert but its
///       owner; between nodes only as many as there are (chunk, other node that holds its expert)
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
  auto build = detail::node_aware_transfers{where, machine};
  auto demands = std::vector<node_demand>{};
  for (auto const chunk : all_chunks(layout))
    demands.push_back(build.demand(chunk.expert, layout.owner(chunk)));
  auto const chains = node_chains(demands, machine.nodes());
  auto chain = chains.begin();
  for (auto const chunk : all_chunks(layout)) build.follow(chunk, layout.owner(chunk), *chain++);
  return {layout, where, build.take(), machine};
}

}  // namespace fssdp
