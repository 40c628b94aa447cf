// SPDX-License-Identifier: Apache-2.0
/// Algorithm 1 with as many experts as the ports allow.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "fssdp/placement/port_loads.hpp"
#include "fssdp/solver/materialization_budget.hpp"
#include "fssdp/solver/placement_solver.hpp"
#include "fssdp/solver/sparse_materialization.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// sparse_materialization with an `overlap` k whose port_loads are within the budget while those of
/// k + 1 are not, found by bisection. Algorithm 1 limits the overlap to what one port can carry;
/// usually only some of the replicas go through any one port, so more experts fit. (Once every rank
/// gets all of them, a still larger k may fit again; it is not looked for.)
/// @cost log E times that of sparse_materialization
struct largest_overlap {
  /// Required, as only the caller knows memory and ports: see hidden_budget and paying_budget; {}
  /// allows no replicas.
  materialization_budget budget = detail::no_budget;
  fssdp::topology topology = {};  ///< the nodes of the ranks; if empty: all on one node

  /// @param loads [experts], any scale
  /// @post the budget allows its port_loads
  /// @throws argument_error without a budget, if it is negative, or if loads or ranks are not as
  ///         many as in the layout
  template <shard_layout Layout>
  [[nodiscard]] placement operator()(std::span<std::uint64_t const> loads,
                                     Layout const& layout) const {
    detail::require_loads("largest_overlap", loads, layout.experts());
    detail::require_budget("largest_overlap", budget);
    auto const topo = topology_or_one_node(topology, layout.ranks());
    auto best = placement{layout};
    auto fits = 0;
    auto too_many = layout.experts() + 1;
    while (too_many - fits > 1) {
      auto const k = fits + (too_many - fits) / 2;
      auto where = sparse_materialization{k, budget.spare_slots, topo}(loads, layout);
      if (budget.allows(port_loads{where, layout, topo})) {
        fits = k;
        best = std::move(where);
      } else {
        too_many = k;
      }
    }
    return best;
  }
};

static_assert(placement_solver<largest_overlap>);

}  // namespace fssdp
