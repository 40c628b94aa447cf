// SPDX-License-Identifier: Apache-2.0
/// Tokens on devices and through ports, under a routing.
#pragma once

#include <cstdint>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/routing/token_routing.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// One way of a dispatch; the way back carries as much the other way.
struct token_traffic {
  std::vector<std::uint64_t> on_rank;      ///< [ranks]: that it works on
  std::vector<std::uint64_t> into_rank;    ///< [ranks]: from other ranks of its node
  std::vector<std::uint64_t> out_of_rank;  ///< [ranks]: to other ranks of its node
  std::vector<std::uint64_t> into_node;    ///< [nodes]: from other nodes
  std::vector<std::uint64_t> out_of_node;  ///< [nodes]: to other nodes

  /// @cost O(ranks * E) calls of the routing
  /// @throws argument_error if counts, placement and topology differ in ranks or experts
  template <token_routing Routing>
  token_traffic(token_counts const& counts, Routing const& routing, topology const& given = {}) {
    auto const& where = routing.where();
    detail::require(counts.ranks() == where.ranks() && counts.experts() == where.experts(),
                    "token_traffic: counts of ", counts.ranks(), " ranks and ", counts.experts(),
                    " experts; the placement has ", where.ranks(), " and ", where.experts());
    auto const topo = topology_or_one_node(given, where.ranks());
    on_rank.resize(static_cast<std::size_t>(topo.ranks()));
    into_rank = out_of_rank = on_rank;
    into_node.resize(static_cast<std::size_t>(topo.nodes()));
    out_of_node = into_node;
    for (auto const source : first_n<rank_id>(counts.ranks()))
      for (auto const expert : first_n<expert_id>(counts.experts()))
        routing(source, expert, counts(source, expert),
                [&](rank_id to, std::uint64_t tokens) { add(topo, source, to, tokens); });
  }

 private:
  void add(topology const& topo, rank_id from, rank_id to, std::uint64_t tokens) {
    on_rank[to.index()] += tokens;
    if (from == to) return;
    if (topo.same_node(from, to)) {
      out_of_rank[from.index()] += tokens;
      into_rank[to.index()] += tokens;
    } else {
      out_of_node[topo.node(from).index()] += tokens;
      into_node[topo.node(to).index()] += tokens;
    }
  }
};

}  // namespace fssdp
