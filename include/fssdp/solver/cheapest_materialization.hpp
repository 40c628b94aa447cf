// SPDX-License-Identifier: Apache-2.0
/// The cheapest placement of several solvers, refined.
#pragma once

#include <cstdint>
#include <span>

#include "fssdp/cost/layer_cost.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/solver/materialization_budget.hpp"
#include "fssdp/solver/placement_solver.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Compares placements and returns the cheapest by layer_cost: owners only; Algorithm 1 with the
/// largest overlap; and needs-based materialization with all slots or fewer, and with all or some
/// of the experts that may enter nodes. Each is refined first: where a rank or a port is fullest,
/// replicas are exchanged as long as that lowers the cost. So the result never costs more than any
/// of them. (Not from the paper.)
struct cheapest_materialization {
  /// Required, as only the caller knows memory and ports: see hidden_budget and paying_budget; {}
  /// allows no replicas.
  materialization_budget budget = detail::no_budget;
  layer_rates rates = {};  ///< required if the budget allows replicas: what a token costs
  /// Tokens of an iteration, over all ranks and experts; 0: gathers are hidden and cost nothing.
  double tokens = 0;
  fssdp::topology topology = {};  ///< the nodes of the ranks; if empty: all on one node
  int trials = 50;                ///< exchanges tried when a placement is refined; 0: none
  /// The relative saving in cost from which a new placement replaces the previous one, which
  /// requires a new plan.
  double worth = 0.01;

  /// @param loads [experts], any scale
  /// @post the budget allows its port_loads
  /// @cost a few times that of its solvers, and at most 12 * `trials` times that of estimated_cost
  /// @throws argument_error without a budget, or without rates where it allows replicas; if a
  ///         number is negative, or loads or ranks are not as many as in the layout
  template <shard_layout Layout>
  [[nodiscard]] placement operator()(std::span<std::uint64_t const> loads,
                                     Layout const& layout) const {
    return solve(loads, detail::owner_table(layout));
  }

  /// For loads that have changed a little: returns the previous placement unless a candidate is
  /// cheaper by `worth`, or the previous placement exceeds the budget. Candidates are the previous
  /// placement, Algorithm 1 with the largest overlap, and needs-based materialization, within the
  /// budget and within what the previous placement uses of it; those with a cost near the best are
  /// refined.
  /// @param before what this solver has returned for earlier loads and the same layout
  /// @cost that of these three solvers, and about 12 exchanges
  /// @throws argument_error as above
  template <shard_layout Layout>
  [[nodiscard]] placement operator()(std::span<std::uint64_t const> loads, Layout const& layout,
                                     placement const& before) const {
    return renew(loads, detail::owner_table(layout), before);
  }

 private:
  [[nodiscard]] placement solve(std::span<std::uint64_t const> loads,
                                table_layout const& layout) const;
  [[nodiscard]] placement renew(std::span<std::uint64_t const> loads, table_layout const& layout,
                                placement const& before) const;
};

static_assert(renewing_solver<cheapest_materialization>);

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/solver/cheapest_materialization_inl.hpp"
#endif
