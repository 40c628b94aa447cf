// SPDX-License-Identifier: Apache-2.0
/// The tokens at ranks and through ports that result from a routing.
#pragma once

#include <cstdint>
#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/routing/token_routing.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// The traffic of a dispatch. A combine has the same traffic in the opposite direction.
struct token_traffic {
  std::vector<std::uint64_t> on_rank;      ///< [ranks]: tokens that it computes
  std::vector<std::uint64_t> into_rank;    ///< [ranks]: from other ranks of its node
  std::vector<std::uint64_t> out_of_rank;  ///< [ranks]: to other ranks of its node
  std::vector<std::uint64_t> into_node;    ///< [nodes]: from other nodes
  std::vector<std::uint64_t> out_of_node;  ///< [nodes]: to other nodes

  /// Counts the traffic of these counts under a routing.
  /// @cost O(ranks * E) calls of the routing
  /// @throws argument_error if counts, placement and topology differ in ranks or experts
  template <token_routing Routing>
  token_traffic(token_counts const& counts, Routing const& routing, topology const& given = {}) {
    auto const& where = routing.where();
    auto const topo = begin(counts, where, given);
    for (auto const source : first_n<rank_id>(counts.ranks()))
      for (auto const expert : first_n<expert_id>(counts.experts()))
        routing(source, expert, counts(source, expert),
                [&](rank_id to, std::uint64_t tokens) { add(topo, source, to, tokens); });
  }

 private:
  /// Sets sizes; returns the topology with ranks.
  [[nodiscard]] topology begin(token_counts const& counts, placement const& where,
                               topology const& given);
  void add(topology const& topo, rank_id from, rank_id to, std::uint64_t tokens);
};

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/routing/token_traffic_inl.hpp"
#endif
