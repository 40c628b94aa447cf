// SPDX-License-Identifier: Apache-2.0
/// The cheapest placement that several solvers find, made cheaper still.
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

/// A portfolio: owners only, Algorithm 1 with the largest overlap, and needs-based materialization
/// with all slots or fewer, and with all or some of them for what nodes take in. Each is refined:
/// where a device or a port is fullest, replicas are exchanged while that makes it cheaper. What
/// then costs least, by layer_cost, is kept, so it is never dearer than any of them. (Not from the
/// paper.)
struct cheapest_materialization {
  /// To be given, as memory and ports are the caller's: hidden_budget or paying_budget say what
  /// they allow; {} allows no replicas.
  materialization_budget budget = detail::no_budget;
  layer_rates rates = {};  ///< to be given as well: what a token costs, else nothing is cheaper
  /// Tokens of an iteration, over all ranks and experts; 0: gathers are hidden.
  double tokens = 0;
  fssdp::topology topology = {};  ///< where the ranks sit; without ranks: all on one node
  int trials = 50;                ///< exchanges that refining looks at, for each of them; 0: none
  /// By what share of its cost a placement must be cheaper than the one before it, to be worth a new
  /// plan.
  double worth = 0.01;

  /// @param loads [experts], any scale
  /// @post the budget allows its port_loads
  /// @cost a few times that of its solvers, and 12 `trials` times that of estimated_cost at most
  /// @throws argument_error without a budget, or without rates where it allows replicas; on a
  ///         negative budget or number, or another number of loads or ranks
  template <shard_layout Layout>
  [[nodiscard]] placement operator()(std::span<std::uint64_t const> loads,
                                     Layout const& layout) const {
    return solve(loads, detail::owner_table(layout));
  }

  /// For loads that have changed a little: the placement before, as long as nothing cheaper by
  /// `worth` is found among that, Algorithm 1 with the largest overlap, and needs-based
  /// materialization within the budget or what the placement before takes of it, each of them
  /// refined if it comes near. A new one if the placement before is beyond the budget.
  /// @param before what this solver has returned for the loads before and the same layout
  /// @cost that of these three solvers, and some 12 exchanges
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
