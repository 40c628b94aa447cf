// SPDX-License-Identifier: Apache-2.0
/// Counts the chunks that a plan moves through the ports of a topology.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Numbers of chunks in one gather. Multiplied by the bytes of a chunk, these are bytes.
struct port_traffic {
  int between_nodes = 0;
  int inside_nodes = 0;
  std::vector<int> out_of_node;  ///< [nodes]
  std::vector<int> into_node;    ///< [nodes]
  std::vector<int> out_of_rank;  ///< [ranks], inside and between nodes together
  std::vector<int> into_rank;    ///< [ranks]
};

/// @throws argument_error if the topology has a different number of ranks
[[nodiscard]] inline port_traffic traffic(transfer_plan const& plan, topology const& given = {}) {
  auto const topo = topology_or_one_node(given, plan.ranks());
  auto count = port_traffic{};
  count.out_of_node.resize(static_cast<std::size_t>(topo.nodes()));
  count.into_node = count.out_of_node;
  count.out_of_rank.resize(static_cast<std::size_t>(topo.ranks()));
  count.into_rank = count.out_of_rank;
  for (auto const& t : plan.transfers()) {
    ++count.out_of_rank[t.source.index()];
    ++count.into_rank[t.destination.index()];
    if (topo.same_node(t.source, t.destination)) {
      ++count.inside_nodes;
    } else {
      ++count.between_nodes;
      ++count.out_of_node[topo.node(t.source).index()];
      ++count.into_node[topo.node(t.destination).index()];
    }
  }
  return count;
}

}  // namespace fssdp
