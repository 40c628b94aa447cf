// SPDX-License-Identifier: Apache-2.0
/// The times of ports.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/cost/layer_cost.hpp"
#include "fssdp/placement/port_loads.hpp"
#include "fssdp/routing/token_traffic.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

FSSDP_INLINE double gather_seconds(port_loads const& ports, topology const& given,
                                   std::size_t expert_bytes, std::size_t piece_bytes) {
  detail::require(ports.into_node.size() == static_cast<std::size_t>(given.nodes()) &&
                      ports.into_rank.size() == static_cast<std::size_t>(given.ranks()),
                  "gather_seconds: ports of ", ports.into_node.size(), " nodes and ",
                  ports.into_rank.size(), " ranks; the topology has ", given.nodes(), " and ",
                  given.ranks());
  auto const bytes = static_cast<double>(expert_bytes);
  auto seconds = 0.0;
  for (auto const node : first_n<node_id>(given.nodes())) {
    auto const most = std::max(ports.into_node[node.index()], ports.out_of_node[node.index()]);
    seconds = std::max(seconds, most * bytes / node_bandwidth(given, node));
  }
  for (auto const rank : first_n<rank_id>(given.ranks())) {
    auto const& interface = given.port(given.interface_of(rank));
    auto const both = given.port(rank).inside_bytes_per_second +
                      (given.nodes() > 1 ? interface.between_bytes_per_second : 0.0);
    seconds = std::max(seconds, ports.into_rank[rank.index()] * bytes / both);
  }
  if (seconds == 0) return 0;
  auto const crossing = ports.between_nodes > 0;
  auto const hops = crossing ? std::bit_width(static_cast<unsigned>(given.nodes() - 1)) : 1;
  auto const piece = static_cast<double>(std::min(piece_bytes, expert_bytes));
  auto const& port = given.port(rank_id{0});
  auto const hop =
      crossing ? given.cost().between_latency_seconds + piece / port.between_bytes_per_second
               : given.cost().inside_latency_seconds + piece / port.inside_bytes_per_second;
  return seconds + hops * hop;
}

FSSDP_INLINE double exposed_seconds(double gather, layer_rates const& rates, gathers often) {
  auto const backward = often == gathers::once ? gather : 2 * gather;
  return std::max(0.0, gather - rates.window_seconds) +
         std::max(0.0, backward - 2 * rates.window_seconds);
}

FSSDP_INLINE layer_cost::layer_cost(token_traffic const& tokens, port_loads const& ports,
                                    layer_rates const& rates, topology const& given, gathers often)
    : compute_seconds{3 * static_cast<double>(std::ranges::max(tokens.on_rank)) *
                      rates.forward_seconds_per_row},
      token_seconds{4 * busiest_port(tokens, given) * static_cast<double>(rates.token_bytes)},
      gather_seconds{fssdp::gather_seconds(ports, given, rates.expert_bytes)},
      exposed_seconds{fssdp::exposed_seconds(gather_seconds, rates, often)} {}

FSSDP_INLINE double layer_cost::busiest_port(token_traffic const& tokens, topology const& given) {
  detail::require(tokens.into_node.size() == static_cast<std::size_t>(given.nodes()) &&
                      tokens.into_rank.size() == static_cast<std::size_t>(given.ranks()),
                  "layer_cost: traffic of ", tokens.into_node.size(), " nodes and ",
                  tokens.into_rank.size(), " ranks; the topology has ", given.nodes(), " and ",
                  given.ranks());
  auto busiest = 0.0;
  for (auto const node : first_n<node_id>(given.nodes())) {
    auto const most = std::max(tokens.into_node[node.index()], tokens.out_of_node[node.index()]);
    busiest = std::max(busiest, static_cast<double>(most) / node_bandwidth(given, node));
  }
  for (auto const rank : first_n<rank_id>(given.ranks())) {
    auto const most = std::max(tokens.into_rank[rank.index()], tokens.out_of_rank[rank.index()]);
    busiest =
        std::max(busiest, static_cast<double>(most) / given.port(rank).inside_bytes_per_second);
  }
  return busiest;
}

}  // namespace fssdp
