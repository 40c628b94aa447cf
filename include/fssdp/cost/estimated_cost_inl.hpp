// SPDX-License-Identifier: Apache-2.0
/// Estimates the cost of placements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fssdp/core/index.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/cost/estimated_cost.hpp"
#include "fssdp/cost/layer_cost.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/routing/balanced_shares.hpp"
#include "fssdp/routing/token_demand.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

FSSDP_INLINE double estimated_cost::seconds(placement const& where, topology const& topo,
                                            token_demand const& demand, layer_rates const& rates) {
  shares_.assign(where, topo, demand);
  spared_.assign(static_cast<std::size_t>(topo.ranks()), 0);
  into_rank_.assign(spared_.size(), 0);
  inside_.assign(static_cast<std::size_t>(topo.nodes()), 0);
  for (auto const expert : first_n<expert_id>(where.experts()))
    for (auto const& host : shares_.hosts(expert))
      add(host, demand(host.node, expert), topo.ranks_on(host.node));
  auto const compute = 3 * static_cast<double>(std::ranges::max(shares_.loads()));
  return compute * rates.forward_seconds_per_row +
         4 * busiest_port(topo) * static_cast<double>(rates.token_bytes);
}

FSSDP_INLINE void estimated_cost::add(detail::expert_host const& host, std::uint64_t tokens,
                                      std::span<rank_id const> ranks) {
  auto const own = tokens / ranks.size();
  auto const shares = shares_.replicas(host);
  inside_[host.node.index()] += own;
  auto moving = std::min(tokens, host.tokens);  // inside the node
  for (auto const& [rank, share] : shares) {
    spared_[rank.index()] += std::min(own, share);
    moving -= std::min(own, share);
  }
  if (tokens > host.tokens) add_leaving(ranks, shares, own, moving);
  for (auto const& [rank, share] : shares) {
    auto const arriving = std::min(moving, share - std::min(own, share));
    into_rank_[rank.index()] += arriving;
    moving -= arriving;
  }
}

FSSDP_INLINE void estimated_cost::add_leaving(std::span<rank_id const> ranks,
                                              std::span<replica_share const> shares,
                                              std::uint64_t own, std::uint64_t moving) {
  auto share = shares.begin();
  for (auto const rank : ranks) {
    auto left = own;
    if (share != shares.end() && share->rank == rank) left -= std::min(own, (share++)->tokens);
    auto const moved = std::min(left, moving);
    moving -= moved;
    spared_[rank.index()] += left - moved;
  }
}

FSSDP_INLINE double estimated_cost::busiest_port(topology const& topo) const {
  auto busiest = 0.0;
  for (auto const node : first_n<node_id>(topo.nodes())) {
    auto const most =
        std::max(shares_.into_node()[node.index()], shares_.out_of_node()[node.index()]);
    busiest = std::max(busiest, static_cast<double>(most) / node_bandwidth(topo, node));
    for (auto const rank : topo.ranks_on(node)) {
      auto const out_of_rank = inside_[node.index()] - spared_[rank.index()];
      auto const through = std::max(into_rank_[rank.index()], out_of_rank);
      busiest =
          std::max(busiest, static_cast<double>(through) / topo.port(rank).inside_bytes_per_second);
    }
  }
  return busiest;
}

}  // namespace fssdp
