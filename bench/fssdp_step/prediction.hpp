// SPDX-License-Identifier: Apache-2.0
/// What the model of fssdp_sim says about iterations that were measured.
#pragma once

#include <span>
#include <vector>

#include "fssdp_sim/between_cost.hpp"
#include "fssdp_sim/layer_figures.hpp"
#include "fssdp_sim/simulate.hpp"
#include "fssdp_sim/split_loads.hpp"
#include "job.hpp"

namespace step {

struct predicted_iteration {
  double seconds = 0;  ///< of all layers of the model, and all else
  double max_over_mean = 0;
  sim::between_cost between = {};  ///< what is exposed of it is in seconds
};

/// Of an iteration whose layers went as recorded: by the same costs as fssdp_sim, for the placements
/// that there were.
[[nodiscard]] inline predicted_iteration predict(job const& of,
                                                 std::span<layer_record const> layers) {
  auto const& where = *of.of.where;
  auto result = predicted_iteration{};
  auto paces = std::vector<sim::layer_pace>{};
  for (auto const& layer : layers) {
    auto const counts =
        sim::split_loads((*of.of.loads)[layer.sample].layers[layer.layer], where.topology.ranks());
    auto const loads = counts.loads();
    auto const figures = sim::figures_of({.topology = &where.topology,
                                          .rates = where.rates,
                                          .owners = &layer.answer.owners,
                                          .predicted = &loads,
                                          .counts = &counts,
                                          .slots = of.of.slots,
                                          .overlap = of.of.overlap},
                                         layer.answer, of.which.costs);
    result.seconds += figures.cost.seconds();
    paces.push_back(sim::pace_of({.compute_seconds = figures.cost.compute_seconds,
                                  .token_seconds = figures.cost.token_seconds,
                                  .reduction_seconds = figures.reduction_seconds,
                                  .exposed_backward_seconds = figures.exposed_backward_seconds,
                                  .owned = sim::owned_by_rank(layer.answer.owners)},
                                 where.non_moe_seconds / where.layers));
    result.max_over_mean += figures.max_over_mean / static_cast<double>(layers.size());
  }
  auto const scale = static_cast<double>(where.layers) / static_cast<double>(layers.size());
  result.seconds = result.seconds * scale + where.non_moe_seconds;
  if (!of.between.has_value()) return result;
  auto const slices = layers.front().answer.owners.slices();
  auto const& groups = of.between->of;
  result.between = sim::cost_between(
      paces, where.topology,
      sim::crossing{groups.method, sim::units_of(*where.model, slices), groups.groups}, groups,
      result.seconds / scale);
  result.between.exposed_seconds *= scale;
  result.between.bytes *= scale;
  result.seconds += result.between.exposed_seconds;
  return result;
}

}  // namespace step
