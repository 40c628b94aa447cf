// SPDX-License-Identifier: Apache-2.0
/// The search for the cheapest placement.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/cost/estimated_cost.hpp"
#include "fssdp/cost/layer_cost.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/placement/port_loads.hpp"
#include "fssdp/routing/token_demand.hpp"
#include "fssdp/solver/cheapest_materialization.hpp"
#include "fssdp/solver/expected_demand.hpp"
#include "fssdp/solver/largest_overlap.hpp"
#include "fssdp/solver/materialization_budget.hpp"
#include "fssdp/solver/needs_based_materialization.hpp"
#include "fssdp/solver/placement_judgement.hpp"
#include "fssdp/solver/placement_solver.hpp"
#include "fssdp/solver/refinement.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

namespace detail {

/// @throws argument_error that says which required option is missing
inline void require_choices(cheapest_materialization const& of) {
  constexpr auto me = "cheapest_materialization";
  require_budget(me, of.budget);
  require(of.budget == materialization_budget{} || of.rates.forward_seconds_per_row > 0 ||
              of.rates.token_bytes > 0,
          me,
          ": .rates has 0 seconds and 0 bytes per token; expected the cost of a token, without "
          "which no replica can pay");
}

/// The topology of a solver, if its options fit.
/// @throws argument_error otherwise
[[nodiscard]] inline fssdp::topology checked_topology(cheapest_materialization const& of,
                                                      std::span<std::uint64_t const> loads,
                                                      table_layout const& layout) {
  require_loads("cheapest_materialization", loads, layout.experts());
  require(of.trials >= 0 && of.tokens >= 0 && of.worth >= 0, "cheapest_materialization: trials is ",
          of.trials, ", tokens ", of.tokens, ", worth ", of.worth, "; expected 0 or more");
  require_choices(of);
  return topology_or_one_node(of.topology, layout.ranks());
}

/// Whether a placement is one of this layout.
[[nodiscard]] inline bool is_of(placement const& where, table_layout const& layout) {
  if (where.experts() != layout.experts() || where.ranks() != layout.ranks()) return false;
  return std::ranges::all_of(first_n<expert_id>(layout.experts()), [&](expert_id expert) {
    return where.holds(layout.owner(expert), expert);
  });
}

/// The smallest budget that allows a placement.
[[nodiscard]] inline materialization_budget taken_by(placement const& where,
                                                     table_layout const& layout,
                                                     fssdp::topology const& topo) {
  auto const ports = port_loads{where, layout, topo};
  return {.experts_in = std::ranges::max(ports.into_node),
          .experts_out = std::ranges::max(ports.out_of_node),
          .spare_slots = ports.busiest_rank()};
}

/// The budget, limited to the number of experts.
[[nodiscard]] inline materialization_budget within_reach(materialization_budget const& budget,
                                                         int experts) {
  return {.experts_in = std::min(budget.experts_in, experts),
          .experts_out = std::min(budget.experts_out, experts),
          .spare_slots = std::min(budget.spare_slots, experts)};
}

/// The number of replicas that a node has slots for.
[[nodiscard]] inline int slots_of_node(fssdp::topology const& topo,
                                       materialization_budget const& of) {
  auto most = std::size_t{0};
  for (auto const node : first_n<node_id>(topo.nodes()))
    most = std::max(most, topo.ranks_on(node).size());
  return static_cast<int>(most) * of.spare_slots;
}

/// Calls `consider(placement, budget)` for each candidate; refinement must stay within that budget.
template <class Consider>
void for_each_candidate(cheapest_materialization const& of, std::span<std::uint64_t const> loads,
                        table_layout const& layout, fssdp::topology const& topo,
                        Consider consider) {
  auto const most = within_reach(of.budget, layout.experts());
  auto const needs_based = [&](materialization_budget const& within) {
    consider(needs_based_materialization{within, topo}(loads, layout), within);
  };
  needs_based(most);
  auto fewer = most;
  if (topo.nodes() > 1)
    for (auto const quarters : {3, 2, 1, 0}) {
      auto const taken = std::min(most.experts_in, slots_of_node(topo, most) * quarters / 4);
      if (std::exchange(fewer.experts_in, taken) != taken) needs_based(fewer);
    }
  consider(placement{layout}, most);
  consider(largest_overlap{most, topo}(loads, layout), most);
  if (of.tokens == 0) return;  // otherwise gathers cost time, and fewer replicas may be cheaper
  fewer = most;
  for (auto const slots : {most.spare_slots / 2, most.spare_slots / 4, 2, 1})
    if (slots >= 1 && slots < fewer.spare_slots) {
      fewer.spare_slots = slots;
      needs_based(fewer);
    }
  auto const hidden = hidden_budget(of.rates, topo, layout.experts(), most.spare_slots);
  if (hidden.experts_in >= most.experts_in && hidden.spare_slots == most.spare_slots) return;
  needs_based({.experts_in = std::min(most.experts_in, hidden.experts_in),
               .experts_out = std::min(most.experts_out, hidden.experts_out),
               .spare_slots = hidden.spare_slots});
}

}  // namespace detail

FSSDP_INLINE placement cheapest_materialization::solve(std::span<std::uint64_t const> loads,
                                                       table_layout const& layout) const {
  auto const topo = detail::checked_topology(*this, loads, layout);
  auto demand = token_demand{};
  detail::expect_demand(loads, topo, demand);
  auto const judge = detail::placement_judgement{*this, topo, demand};
  auto refine = detail::refinement{};
  auto best = placement{layout};
  auto least = judge.seconds(best, layout);
  auto const keep_if_cheaper = [&](placement const& where) {
    auto const seconds = judge.seconds(where, layout);
    if (seconds >= least) return;
    least = seconds;
    best = where;
  };
  detail::for_each_candidate(*this, loads, layout, topo,
                             [&](placement where, materialization_budget const& within) {
                               keep_if_cheaper(where);
                               if (trials == 0) return;
                               refine.improve(where, layout, topo, demand, rates, within, trials);
                               keep_if_cheaper(where);
                             });
  return best;
}

FSSDP_INLINE placement cheapest_materialization::renew(std::span<std::uint64_t const> loads,
                                                       table_layout const& layout,
                                                       placement const& before) const {
  auto const topo = detail::checked_topology(*this, loads, layout);
  auto const within = detail::within_reach(budget, layout.experts());
  if (!detail::is_of(before, layout) || !budget.allows(port_loads{before, layout, topo}))
    return solve(loads, layout);
  auto demand = token_demand{};
  detail::expect_demand(loads, topo, demand);
  auto const judge = detail::placement_judgement{*this, topo, demand};
  auto const kept = judge.seconds(before, layout);
  auto refine = detail::refinement{};
  auto best = before;
  auto least = kept;
  auto const keep_if_cheaper = [&](placement where, materialization_budget const& limit) {
    constexpr auto exchanges = 12;
    constexpr auto within_reach_of_refining = 1.05;
    if (judge.seconds(where, layout) > least * within_reach_of_refining) return;
    if (trials > 0)
      refine.improve(where, layout, topo, demand, rates, limit, std::min(trials, exchanges));
    auto const seconds = judge.seconds(where, layout);
    if (seconds >= least) return;
    least = seconds;
    best = std::move(where);
  };
  keep_if_cheaper(before, within);
  auto const taken = detail::taken_by(before, layout, topo);
  for (auto const& limit : {within, taken})
    keep_if_cheaper(needs_based_materialization{limit, topo}(loads, layout), limit);
  keep_if_cheaper(largest_overlap{within, topo}(loads, layout), within);
  return least < kept * (1 - worth) ? best : before;
}

}  // namespace fssdp
