// SPDX-License-Identifier: Apache-2.0
/// The load on ports from moving experts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "fssdp/cost/layer_cost.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/placement/port_loads.hpp"
#include "fssdp/topology/topology.hpp"
#include "policy.hpp"

namespace sim {

/// One gather of what a placement holds; a reduction is the same backwards. Fractions of experts
/// where they are sliced.
struct expert_traffic {
  std::vector<double> into_node;    ///< [nodes]: experts
  std::vector<double> out_of_node;  ///< [nodes]
  double seconds = 0;
};

/// Whole experts come from their owners.
[[nodiscard]] inline expert_traffic whole_traffic(fssdp::placement const& where,
                                                  fssdp::table_layout const& owners,
                                                  fssdp::topology const& topo,
                                                  std::size_t expert_bytes) {
  auto const ports = fssdp::port_loads{where, owners, topo};
  return {.into_node = {ports.into_node.begin(), ports.into_node.end()},
          .out_of_node = {ports.out_of_node.begin(), ports.out_of_node.end()},
          .seconds = fssdp::gather_seconds(ports, topo, expert_bytes)};
}

/// Everybody that holds an expert brings it together from slices, one on every device.
[[nodiscard]] inline expert_traffic sliced_traffic(fssdp::placement const& where,
                                                   fssdp::topology const& topo,
                                                   std::size_t expert_bytes) {
  auto const nodes = static_cast<std::size_t>(topo.nodes());
  auto held = std::vector<double>(static_cast<std::size_t>(topo.ranks()));  // [ranks]
  auto hosts = std::vector<int>(nodes);
  auto traffic = expert_traffic{.into_node = std::vector<double>(nodes),
                                .out_of_node = std::vector<double>(nodes)};
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(where.experts())) {
    std::ranges::fill(hosts, 0);
    for (auto const rank : where.holders(expert)) {
      ++held[rank.index()];
      hosts[topo.node(rank).index()] = 1;
    }
    auto const count = std::ranges::count(hosts, 1);
    for (std::size_t node = 0; node < nodes; ++node) {
      traffic.into_node[node] += hosts[node];
      traffic.out_of_node[node] += count > hosts[node] ? 1 : 0;
    }
  }
  auto const bytes = static_cast<double>(expert_bytes);
  auto const devices = static_cast<double>(topo.ranks());
  for (auto const node : fssdp::first_n<fssdp::node_id>(topo.nodes())) {
    auto const share = static_cast<double>(topo.ranks_on(node).size()) / devices;
    auto& into = traffic.into_node[node.index()] *= 1 - share;
    auto& out = traffic.out_of_node[node.index()] *= share;
    traffic.seconds =
        std::max(traffic.seconds, std::max(into, out) * bytes / node_bandwidth(topo, node));
    for (auto const rank : topo.ranks_on(node)) {
      auto const interface = topo.port(topo.interface_of(rank)).between_bytes_per_second;
      auto const both =
          topo.port(rank).inside_bytes_per_second + (topo.nodes() > 1 ? interface : 0.0);
      traffic.seconds =
          std::max(traffic.seconds, held[rank.index()] * (1 - 1 / devices) * bytes / both);
    }
  }
  return traffic;
}

[[nodiscard]] inline expert_traffic traffic_of(fssdp::placement const& where,
                                               layer_answer const& answer,
                                               layer_question const& question, movement moves) {
  auto const bytes = question.rates.expert_bytes;
  return moves == movement::sliced ? sliced_traffic(where, *question.topology, bytes)
                                   : whole_traffic(where, answer.owners, *question.topology, bytes);
}

}  // namespace sim
