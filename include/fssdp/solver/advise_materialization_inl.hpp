// SPDX-License-Identifier: Apache-2.0
/// How advice is found.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/cost/estimated_cost.hpp"
#include "fssdp/cost/layer_cost.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/placement/port_loads.hpp"
#include "fssdp/routing/token_demand.hpp"
#include "fssdp/solver/advise_materialization.hpp"
#include "fssdp/solver/expected_demand.hpp"
#include "fssdp/solver/placement_judgement.hpp"
#include "fssdp/solver/placement_solver.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp::detail {

/// A placement, and its cost if tokens are spread evenly over the ranks that they come from.
struct judged_placement {
  materialization_budget budget;
  double seconds = 0;
  double max_over_mean = 1;
};

/// With two decimals.
[[nodiscard]] inline std::string two_digits(double value) {
  auto digits = std::to_string(std::round(value * 100) / 100);
  digits.erase(std::min(digits.size(), digits.find('.') + 3));
  return digits;
}

[[nodiscard]] inline std::string reason(materialization_advice const& of) {
  auto const balance = [](double value) { return two_digits(value) + " times the average"; };
  if (!of.pays())
    return "no replicas: without them the fullest rank works on " +
           balance(of.max_over_mean_without) +
           ", and with them an iteration of the layer is at most 1 % faster";
  return text(of.budget.spare_slots, of.budget.spare_slots == 1 ? " replica" : " replicas",
              " on a rank, ", of.budget.experts_in, " into a node: the fullest rank works on ",
              balance(of.max_over_mean_with), " instead of ", two_digits(of.max_over_mean_without),
              ", and an iteration of the layer is ", two_digits(of.gain()), " times as fast");
}

/// 0, 1, 2, 4, ... and `most`.
[[nodiscard]] inline std::vector<int> slots_to_try(int most) {
  auto list = std::vector{0};
  for (auto slots = 1; slots < most; slots *= 2) list.push_back(slots);
  if (most > 0) list.push_back(most);
  return list;
}

FSSDP_INLINE materialization_advice advise(advised_layer const& of, table_layout const& layout) {
  require_loads("advise_materialization", of.loads, layout.experts());
  require(of.most_slots >= 0, "advise_materialization: most_slots is ", of.most_slots,
          "; expected 0 or more");
  require(of.rates.forward_seconds_per_row > 0 || of.rates.token_bytes > 0,
          "advise_materialization: .rates has 0 seconds and 0 bytes per token; expected the cost "
          "of a token");
  auto const topo = topology_or_one_node(of.topology, layout.ranks());
  auto demand = token_demand{};
  expect_demand(of.loads, topo, demand);
  auto tokens = 0.0;
  for (auto const load : of.loads) tokens += static_cast<double>(load);
  auto tried = std::vector<judged_placement>{};
  auto cost = estimated_cost{};
  for (auto const slots : slots_to_try(std::min(of.most_slots, layout.experts()))) {
    auto const budget =
        slots == 0 ? materialization_budget{} : paying_budget(of.loads, of.rates, topo, slots);
    auto solve = cheapest_materialization{
        .budget = budget, .rates = of.rates, .tokens = tokens, .topology = topo};
    auto const where = solve(of.loads, layout);
    auto const judge = placement_judgement{solve, topo, demand};
    auto const seconds = judge.seconds(where, layout);
    (void)cost.seconds(where, topo, demand, of.rates);
    auto const ranks = cost.shares().loads();
    tried.push_back({budget, seconds, max_over_mean({ranks.data(), ranks.size()})});
  }
  auto best = tried.front().seconds;
  for (auto const& one : tried) best = std::min(best, one.seconds);
  auto const chosen = std::ranges::find_if(
      tried, [&](judged_placement const& one) { return one.seconds <= 1.01 * best; });
  auto advice = materialization_advice{.budget = chosen->budget,
                                       .seconds_without = tried.front().seconds,
                                       .seconds_with = chosen->seconds,
                                       .max_over_mean_without = tried.front().max_over_mean,
                                       .max_over_mean_with = chosen->max_over_mean};
  advice.why = reason(advice);
  return advice;
}

}  // namespace fssdp::detail
