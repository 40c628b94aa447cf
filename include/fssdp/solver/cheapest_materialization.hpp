// SPDX-License-Identifier: Apache-2.0
/// Several solvers, of whose placements the cheapest is kept.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include "fssdp/cluster/topology.hpp"
#include "fssdp/placement/port_loads.hpp"
#include "fssdp/routing/layer_cost.hpp"
#include "fssdp/routing/token_demand.hpp"
#include "fssdp/solver/expected_demand.hpp"
#include "fssdp/solver/needs_based_materialization.hpp"
#include "fssdp/solver/placement_solver.hpp"
#include "fssdp/solver/refinement.hpp"
#include "fssdp/solver/sparse_materialization.hpp"

namespace fssdp {

struct cheapest_materialization {
  materialization_budget budget = {};
  layer_rates rates = {};
  topology cluster = {};
  int trials = 200;

  template <shard_layout Layout>
  [[nodiscard]] placement operator()(std::span<std::uint64_t const> loads,
                                     Layout const& layout) const {
    detail::require_loads("cheapest_materialization", loads, layout);
    auto const machine = topology_or_one_node(cluster, layout.ranks());
    auto demand = token_demand{};
    detail::expect_demand(loads, machine, demand);
    auto refine = detail::refinement{};
    auto best = placement{};
    auto least = std::numeric_limits<double>::infinity();
    auto const consider = [&](placement where) {
      auto const seconds = refine.improve(where, layout, machine, demand, rates, budget, trials);
      if (seconds >= least) return;
      least = seconds;
      best = std::move(where);
    };
    auto const bandwidth = node_bandwidth(machine, node_id{0});
    auto const weight = 4 * static_cast<double>(rates.token_bytes) / bandwidth / (3 * rates.seconds_per_token);
    for (auto slots = budget.spare_slots; slots >= 0; --slots)
    consider(needs_based_materialization{budget.experts_in, budget.experts_out, slots, machine, weight}(loads, layout));
    auto widest = placement{layout};
    for (auto k = layout.experts(); k >= 1; --k) {
      widest = sparse_materialization{k, budget.spare_slots, machine}(loads, layout);
      auto const ports = port_loads{widest, layout, machine};
      if (std::ranges::max(ports.into_node) <= budget.experts_in && std::ranges::max(ports.out_of_node) <= budget.experts_out) { consider(widest); break; }
    }
    consider(placement{layout});
    return best;
  }
};

static_assert(placement_solver<cheapest_materialization>);

}  // namespace fssdp
