// SPDX-License-Identifier: Apache-2.0
/// The cheapest placement that several solvers find, made cheaper still.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include "fssdp/cost/estimated_cost.hpp"
#include "fssdp/cost/layer_cost.hpp"
#include "fssdp/placement/port_loads.hpp"
#include "fssdp/routing/token_demand.hpp"
#include "fssdp/solver/expected_demand.hpp"
#include "fssdp/solver/largest_overlap.hpp"
#include "fssdp/solver/materialization_budget.hpp"
#include "fssdp/solver/needs_based_materialization.hpp"
#include "fssdp/solver/placement_solver.hpp"
#include "fssdp/solver/refinement.hpp"
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

  /// @param loads [experts], any scale
  /// @post the budget allows its port_loads
  /// @cost a few times that of its solvers, and 12 `trials` times that of estimated_cost at most
  /// @throws argument_error without a budget, or without rates where it allows replicas; on a
  ///         negative budget or number, or another number of loads or ranks
  template <shard_layout Layout>
  [[nodiscard]] placement operator()(std::span<std::uint64_t const> loads,
                                     Layout const& layout) const {
    detail::require_loads("cheapest_materialization", loads, layout);
    detail::require(trials >= 0 && tokens >= 0, "cheapest_materialization: ", trials, " trials, ",
                    tokens, " tokens; expected 0 or more");
    require_choices();
    auto const topo = topology_or_one_node(topology, layout.ranks());
    auto demand = token_demand{};
    detail::expect_demand(loads, topo, demand);
    auto const judge = judgement{*this, topo, demand};
    auto refine = detail::refinement{};
    auto best = placement{layout};
    auto least = judge.seconds(best, layout);
    auto const keep_if_cheaper = [&](placement const& where) {
      auto const seconds = judge.seconds(where, layout);
      if (seconds >= least) return;
      least = seconds;
      best = where;
    };
    for_each_candidate(loads, layout, topo,
                       [&](placement where, materialization_budget const& within) {
                         keep_if_cheaper(where);
                         if (trials == 0) return;
                         refine.improve(where, layout, topo, demand, rates, within, trials);
                         keep_if_cheaper(where);
                       });
    return best;
  }

 private:
  /// @throws argument_error that says what has to be given
  void require_choices() const {
    constexpr auto me = "cheapest_materialization";
    detail::require_budget(me, budget);
    detail::require(
        budget == materialization_budget{} || rates.seconds_per_token > 0 || rates.token_bytes > 0,
        me,
        ": rates of 0 seconds and 0 bytes per token; expected what a token costs, as "
        ".rates: else no replica can make anything cheaper");
  }

  /// What a placement costs, exposed gathers included.
  struct judgement {
    cheapest_materialization const& of;
    fssdp::topology const& topo;
    token_demand const& demand;
    double tokens_per_unit = 0;

    judgement(cheapest_materialization const& solver, fssdp::topology const& topology,
              token_demand const& wanted)
        : of{solver}, topo{topology}, demand{wanted} {
      auto units = 0.0;
      for (auto const node : first_n<node_id>(topo.nodes()))
        for (auto const part : demand.of(node)) units += static_cast<double>(part);
      tokens_per_unit = units > 0 ? of.tokens / units : 0;
    }
    template <shard_layout Layout>
    [[nodiscard]] double seconds(placement const& where, Layout const& layout) const {
      auto const moving = estimated_cost{}.seconds(where, topo, demand, of.rates);
      if (tokens_per_unit == 0) return moving;
      auto const ports = port_loads{where, layout, topo};
      return moving * tokens_per_unit +
             exposed_seconds(gather_seconds(ports, topo, of.rates.expert_bytes), of.rates);
    }
  };

  /// Calls `consider(placement, budget)`; no slot is to be filled beyond that budget.
  template <shard_layout Layout, class Consider>
  void for_each_candidate(std::span<std::uint64_t const> loads, Layout const& layout,
                          fssdp::topology const& topo, Consider consider) const {
    auto const most = within_reach(layout.experts());
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
    if (tokens == 0) return;  // else more replicas may be dearer: gathers take time
    fewer = most;
    for (auto const slots : {most.spare_slots / 2, most.spare_slots / 4, 2, 1})
      if (slots >= 1 && slots < fewer.spare_slots) {
        fewer.spare_slots = slots;
        needs_based(fewer);
      }
    auto const hidden = hidden_budget(rates, topo, layout.experts(), most.spare_slots);
    if (hidden.experts_in >= most.experts_in && hidden.spare_slots == most.spare_slots) return;
    needs_based({.experts_in = std::min(most.experts_in, hidden.experts_in),
                 .experts_out = std::min(most.experts_out, hidden.experts_out),
                 .spare_slots = hidden.spare_slots});
  }
  /// There are no more experts than that.
  [[nodiscard]] materialization_budget within_reach(int experts) const {
    return {.experts_in = std::min(budget.experts_in, experts),
            .experts_out = std::min(budget.experts_out, experts),
            .spare_slots = std::min(budget.spare_slots, experts)};
  }
  /// Experts that a node has slots for.
  static int slots_of_node(fssdp::topology const& topo, materialization_budget const& of) {
    auto most = std::size_t{0};
    for (auto const node : first_n<node_id>(topo.nodes()))
      most = std::max(most, topo.ranks_on(node).size());
    return static_cast<int>(most) * of.spare_slots;
  }
};

static_assert(placement_solver<cheapest_materialization>);

}  // namespace fssdp
