// SPDX-License-Identifier: Apache-2.0
/// Adds counts by node.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fssdp/core/index.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/routing/token_demand.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

FSSDP_INLINE token_demand::token_demand(int nodes, int experts) { reset(nodes, experts); }

FSSDP_INLINE token_demand::token_demand(token_counts const& counts, topology const& given) {
  auto const topo = topology_or_one_node(given, counts.ranks());
  reset(topo.nodes(), counts.experts());
  for (auto const rank : first_n<rank_id>(topo.ranks())) {
    auto const row = of(topo.node(rank));
    auto const counted = counts.values().subspan(rank.index() * row.size(), row.size());
    for (std::size_t e = 0; e < row.size(); ++e) row[e] += counted[e];
  }
}

FSSDP_INLINE void token_demand::reset(int nodes, int experts) {
  nodes_ = nodes;
  experts_ = experts;
  values_.assign(static_cast<std::size_t>(nodes) * static_cast<std::size_t>(experts), 0);
}

}  // namespace fssdp
