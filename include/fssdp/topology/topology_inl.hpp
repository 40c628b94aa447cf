// SPDX-License-Identifier: Apache-2.0
/// Checks a topology, and computes its tables.
#pragma once

#include <cstddef>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

FSSDP_INLINE topology::topology(shape const& of)
    : topology{spread(of), {of.ports}, of.network, of.cost} {}

FSSDP_INLINE std::vector<node_id> topology::spread(shape const& of) {
  detail::require(of.nodes >= 1 && of.nodes <= of.ranks, "topology: ", of.nodes, " nodes for ",
                  of.ranks, " ranks; expected at least one rank per node");
  auto node_of = std::vector<node_id>{};
  for (int node = 0; node < of.nodes; ++node) {
    auto const here = of.ranks / of.nodes + (node < of.ranks % of.nodes ? 1 : 0);
    node_of.insert(node_of.end(), static_cast<std::size_t>(here), node_id{node});
  }
  return node_of;
}

FSSDP_INLINE void topology::number_ranks() {
  if (ports_.size() == 1) ports_.resize(node_of_.size(), ports_.front());
  detail::require(ports_.size() == node_of_.size(), "topology: ", ports_.size(), " ports for ",
                  node_of_.size(), " ranks; expected one port per rank");
  for (auto const node : node_of_) {
    detail::require(node.value() >= 0, "topology: node ", node, "; expected 0 or more");
    detail::require(node.index() < node_of_.size(), "topology: node ", node, " for ",
                    node_of_.size(), " ranks; expected 0 to ", node_of_.size() - 1,
                    ", numbered without gaps");
    if (node.index() >= ranks_on_.size()) ranks_on_.resize(node.index() + 1);
  }
  for (auto const rank : first_n<rank_id>(ranks()))
    ranks_on_[node_of_[rank.index()].index()].push_back(rank);
  for (std::size_t node = 0; node < ranks_on_.size(); ++node)
    detail::require(!ranks_on_[node].empty(), "topology: node ", node, " of ", ranks_on_.size(),
                    " has no rank; expected nodes numbered without gaps");
  check_speed();
}

FSSDP_INLINE void topology::check_speed() const {
  auto const usable = [](double bandwidth) {
    return bandwidth >= detail::least_bandwidth && bandwidth <= detail::most_bandwidth;
  };
  for (auto const& port : ports_)
    detail::require(usable(port.inside_bytes_per_second) && usable(port.between_bytes_per_second),
                    "topology: bandwidths of ", port.inside_bytes_per_second, " and ",
                    port.between_bytes_per_second,
                    " bytes per second; expected more than 0, namely ", detail::least_bandwidth,
                    " to ", detail::most_bandwidth);
  auto const payable = [](double seconds) {
    return seconds >= 0 && seconds <= detail::most_message_seconds;
  };
  detail::require(payable(cost_.inside_latency_seconds) && payable(cost_.between_latency_seconds) &&
                      payable(cost_.port_seconds),
                  "topology: message_cost has ", cost_.inside_latency_seconds, ", ",
                  cost_.between_latency_seconds, " and ", cost_.port_seconds,
                  " seconds; expected 0 to ", detail::most_message_seconds, " each");
}

FSSDP_INLINE double node_bandwidth(topology const& topo, node_id node) {
  auto sum = 0.0;
  for (auto const rank : topo.ranks_on(node))
    if (topo.interface_of(rank) == rank) sum += topo.port(rank).between_bytes_per_second;
  return sum;
}

FSSDP_INLINE topology topology_or_one_node(topology const& given, int ranks) {
  if (given.ranks() == 0) return topology{{.nodes = 1, .ranks = ranks}};
  detail::require(given.ranks() == ranks, "topology has ", given.ranks(), " ranks; expected ",
                  ranks);
  return given;
}

}  // namespace fssdp
