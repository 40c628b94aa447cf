// SPDX-License-Identifier: Apache-2.0
/// What the network interfaces take in.
#pragma once

#include <algorithm>

#include "expert_traffic.hpp"
#include "fssdp/cost/layer_cost.hpp"
#include "fssdp/routing/token_traffic.hpp"
#include "fssdp/topology/topology.hpp"

namespace sim {

/// Bytes that come into the busiest interface in an iteration of a layer: tokens there and back,
/// forward and backward; experts, once or twice, and their gradients. The interfaces of a node
/// share its traffic. 0 if there is only one node.
[[nodiscard]] inline double interface_bytes(fssdp::token_traffic const& tokens,
                                            expert_traffic const& experts,
                                            fssdp::topology const& topo,
                                            fssdp::layer_rates const& rates, fssdp::gathers often) {
  auto const gathers = often == fssdp::gathers::twice ? 2.0 : 1.0;
  auto most = 0.0;
  for (auto const node : fssdp::first_n<fssdp::node_id>(topo.nodes())) {
    auto const ranks = topo.ranks_on(node);
    auto const interfaces = std::ranges::count_if(
        ranks, [&](fssdp::rank_id rank) { return topo.interface_of(rank) == rank; });
    auto const n = node.index();
    auto const both_ways = static_cast<double>(tokens.into_node[n] + tokens.out_of_node[n]);
    auto const bytes = 2 * both_ways * static_cast<double>(rates.token_bytes) +
                       (gathers * experts.into_node[n] + experts.out_of_node[n]) *
                           static_cast<double>(rates.expert_bytes);
    most = std::max(most, bytes / static_cast<double>(interfaces));
  }
  return most;
}

}  // namespace sim
