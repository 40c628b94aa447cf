// SPDX-License-Identifier: Apache-2.0
/// How many experts a placement moves through the ports of a topology, for any plan.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "fssdp/placement/placement.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Counts experts at ports. An expert enters each remote node that holds it once, leaves its own
/// node at least once (other nodes pass it on), and enters every rank that holds it and is not its
/// owner. These are lower bounds for any plan; for experts that enter nodes, plans that enter each
/// node once need exactly these. Sliced experts count as whole experts from their owner.
struct port_loads {
  std::vector<int> into_node;    ///< [nodes]
  std::vector<int> out_of_node;  ///< [nodes]: owned there, and held by other nodes
  std::vector<int> into_rank;    ///< [ranks]: from any rank
  int between_nodes = 0;         ///< into_node, summed over all nodes

  /// All counts are zero.
  /// @param topo with ranks
  explicit port_loads(topology const& topo)
      : into_node(static_cast<std::size_t>(topo.nodes())),
        out_of_node(into_node.size()),
        into_rank(static_cast<std::size_t>(topo.ranks())) {}

  /// Counts the experts of a placement.
  /// @pre check_contains accepts the placement
  /// @cost O(E D / 64 + replicas)
  /// @throws argument_error if the topology has ranks, but not as many as the placement
  template <shard_layout Layout>
  port_loads(placement const& where, Layout const& layout, topology const& given = {})
      : port_loads{topology_or_one_node(given, where.ranks())} {
    auto const topo = topology_or_one_node(given, where.ranks());
    auto seen = std::vector<int>(into_node.size(), -1);  // [nodes]: the last expert that entered
    for (auto const expert : first_n<expert_id>(where.experts())) {
      auto const owner = layout.owner(expert);
      auto leaves = false;
      for (auto const rank : where.holders(expert)) {
        if (rank == owner) continue;
        ++into_rank[rank.index()];
        auto const node = topo.node(rank);
        if (node == topo.node(owner) || seen[node.index()] == expert.value()) continue;
        seen[node.index()] = expert.value();
        ++into_node[node.index()];
        ++between_nodes;
        leaves = true;
      }
      if (leaves) ++out_of_node[topo.node(owner).index()];
    }
  }

  /// The largest number of experts that enter or leave a node.
  [[nodiscard]] int busiest_node() const {
    return std::max(std::ranges::max(into_node), std::ranges::max(out_of_node));
  }
  /// The largest number of experts that enter a rank: the slots that a placement needs.
  [[nodiscard]] int busiest_rank() const { return std::ranges::max(into_rank); }
};

}  // namespace fssdp
