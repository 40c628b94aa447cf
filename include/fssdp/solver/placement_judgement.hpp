// SPDX-License-Identifier: Apache-2.0
/// The cost by which cheapest_materialization compares placements.
#pragma once

#include "fssdp/core/index.hpp"
#include "fssdp/cost/estimated_cost.hpp"
#include "fssdp/cost/layer_cost.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/placement/port_loads.hpp"
#include "fssdp/routing/token_demand.hpp"
#include "fssdp/solver/cheapest_materialization.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp::detail {

/// The cost of a placement, exposed gathers included.
struct placement_judgement {
  cheapest_materialization const& of;
  fssdp::topology const& topo;
  token_demand const& demand;
  double tokens_per_unit = 0;

  placement_judgement(cheapest_materialization const& solver, fssdp::topology const& topology,
                      token_demand const& wanted)
      : of{solver}, topo{topology}, demand{wanted} {
    auto units = 0.0;
    for (auto const node : first_n<node_id>(topo.nodes()))
      for (auto const part : demand.of(node)) units += static_cast<double>(part);
    tokens_per_unit = units > 0 ? of.tokens / units : 0;
  }
  [[nodiscard]] double seconds(placement const& where, table_layout const& layout) const {
    auto const moving = estimated_cost{}.seconds(where, topo, demand, of.rates);
    if (tokens_per_unit == 0) return moving;
    auto const ports = port_loads{where, layout, topo};
    return moving * tokens_per_unit +
           exposed_seconds(gather_seconds(ports, topo, of.rates.expert_bytes), of.rates);
  }
};

}  // namespace fssdp::detail
