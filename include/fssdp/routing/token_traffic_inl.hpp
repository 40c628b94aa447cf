// SPDX-License-Identifier: Apache-2.0
/// Adds up traffic.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/routing/token_traffic.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

FSSDP_INLINE topology token_traffic::begin(token_counts const& counts, placement const& where,
                                           topology const& given) {
  detail::require(counts.ranks() == where.ranks() && counts.experts() == where.experts(),
                  "token_traffic: counts of ", counts.ranks(), " ranks and ", counts.experts(),
                  " experts; the placement has ", where.ranks(), " and ", where.experts());
  auto topo = topology_or_one_node(given, where.ranks());
  on_rank.resize(static_cast<std::size_t>(topo.ranks()));
  into_rank = out_of_rank = on_rank;
  into_node.resize(static_cast<std::size_t>(topo.nodes()));
  out_of_node = into_node;
  return topo;
}

FSSDP_INLINE void token_traffic::add(topology const& topo, rank_id from, rank_id to,
                                     std::uint64_t tokens) {
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

}  // namespace fssdp
