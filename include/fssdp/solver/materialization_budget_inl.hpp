// SPDX-License-Identifier: Apache-2.0
/// How budgets are found and checked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/cost/layer_cost.hpp"
#include "fssdp/placement/port_loads.hpp"
#include "fssdp/solver/materialization_budget.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

namespace detail {

FSSDP_INLINE void require_budget(char const* solver, materialization_budget const& budget) {
  require(budget != no_budget, solver,
          ": no budget; expected .budget = hidden_budget(...) or paying_budget(...), as memory and "
          "ports allow, or .budget = {} for no replicas");
  auto const at_least_0 = [&](char const* what, int value) {
    require(value >= 0, solver, ": ", what, " is ", value, "; expected 0 or more");
  };
  at_least_0("experts_in", budget.experts_in);
  at_least_0("experts_out", budget.experts_out);
  at_least_0("spare_slots", budget.spare_slots);
}

}  // namespace detail

FSSDP_INLINE bool materialization_budget::allows(port_loads const& ports) const {
  return std::ranges::max(ports.into_node) <= experts_in &&
         std::ranges::max(ports.out_of_node) <= experts_out && ports.busiest_rank() <= spare_slots;
}

FSSDP_INLINE void check_within(port_loads const& ports, materialization_budget const& budget) {
  auto const check = [](char const* name, int most, char const* place,
                        std::vector<int> const& counts) {
    for (std::size_t i = 0; i < counts.size(); ++i)
      detail::require(counts[i] <= most, "placement: ", name, " of ", place, " ", i, " is ",
                      counts[i], "; expected at most ", most, ", as the budget allows");
  };
  check("experts_in", budget.experts_in, "node", ports.into_node);
  check("experts_out", budget.experts_out, "node", ports.out_of_node);
  check("spare_slots", budget.spare_slots, "rank", ports.into_rank);
}

FSSDP_INLINE materialization_budget hidden_budget(layer_rates const& rates, topology const& topo,
                                                  int experts, int spare_slots) {
  auto ports = port_loads{topo};
  auto hidden = 0;
  for (; hidden < experts; ++hidden) {
    if (topo.nodes() == 1) std::ranges::fill(ports.into_rank, hidden + 1);
    if (topo.nodes() > 1) std::ranges::fill(ports.into_node, ports.between_nodes = hidden + 1);
    if (gather_seconds(ports, topo, rates.expert_bytes) > rates.window_seconds) break;
  }
  auto const slots = topo.nodes() == 1 ? std::min(hidden, spare_slots) : spare_slots;
  return {.experts_in = hidden, .experts_out = hidden, .spare_slots = slots};
}

FSSDP_INLINE double break_even_tokens(layer_rates const& rates) {
  return 2 * static_cast<double>(rates.expert_bytes) / (4 * static_cast<double>(rates.token_bytes));
}

FSSDP_INLINE materialization_budget paying_budget(std::span<std::uint64_t const> loads,
                                                  layer_rates const& rates, topology const& topo,
                                                  int spare_slots) {
  auto const experts = static_cast<int>(loads.size());
  auto budget = hidden_budget(rates, topo, experts, spare_slots);
  auto const least = break_even_tokens(rates) * topo.nodes();  // of all nodes together
  auto const paying = static_cast<int>(std::ranges::count_if(
      loads, [&](std::uint64_t tokens) { return static_cast<double>(tokens) > least; }));
  budget.experts_in = std::max(budget.experts_in, paying);
  budget.experts_out = std::max(budget.experts_out, paying);
  budget.spare_slots = spare_slots;
  return budget;
}

}  // namespace fssdp
