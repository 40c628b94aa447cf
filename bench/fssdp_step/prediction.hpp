// SPDX-License-Identifier: Apache-2.0
/// What the model says about iterations that were measured.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "expert_shape.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/plan/simulate.hpp"
#include "fssdp/plan/transfer.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp_sim/between_cost.hpp"
#include "fssdp_sim/layer_figures.hpp"
#include "fssdp_sim/simulate.hpp"
#include "fssdp_sim/split_loads.hpp"
#include "iteration_model.hpp"
#include "job.hpp"
#include "message_costs.hpp"

namespace step {

struct predicted_iteration {
  double seconds = 0;           ///< of all layers of the model, and all else
  double planning_seconds = 0;  ///< what of it is due to placements and plans not made ahead
  double max_over_mean = 0;
  sim::between_cost between = {};  ///< what is exposed of it is in seconds
};

/// A plan on ideal ports of the real cluster.
/// @param receiver of a transfer: its destination in a gather, its source in a reduction
[[nodiscard]] inline expert_move move_of(fssdp::transfer_plan const& plan,
                                         fssdp::rank_id fssdp::transfer::*receiver, job const& of) {
  auto messages = std::vector<std::size_t>(static_cast<std::size_t>(plan.ranks()));
  for (auto const& one : plan.transfers()) ++messages[(one.*receiver).index()];
  auto const slices = plan.slices();
  auto const bytes = sizeof(float) * expert_elements(of, slices);
  auto const emulated = fssdp::simulate(plan, bytes / static_cast<std::size_t>(slices)).seconds;
  return {.seconds = emulated / of.emulates.slow, .messages = std::ranges::max(messages)};
}

/// Of an iteration whose layers went as recorded: computation and tokens by the costs of fssdp_sim,
/// gathers and reductions by their plans, solver and planner as long as they took.
[[nodiscard]] inline predicted_iteration predict(job const& of,
                                                 std::span<layer_record const> layers) {
  auto const& where = *of.of.where;
  auto result = predicted_iteration{};
  auto all = std::vector<layer_costs>{};
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
    all.push_back({.experts = figures.experts,
                   .planning = layer.planning,
                   .gather = move_of(layer.gathered, &fssdp::transfer::destination, of),
                   .late_gather = figures.late_gather_seconds,
                   .reduction = move_of(layer.reduced, &fssdp::transfer::source, of)});
    paces.push_back(sim::pace_of({.compute_seconds = figures.cost.compute_seconds,
                                  .token_seconds = figures.cost.token_seconds,
                                  .reduction_seconds = figures.reduction_seconds,
                                  .exposed_backward_seconds = figures.exposed_backward_seconds,
                                  .owned = sim::owned_by_rank(layer.answer.owners)},
                                 where.non_moe_seconds / where.layers));
    result.max_over_mean += figures.max_over_mean / static_cast<double>(layers.size());
  }
  auto const scale = static_cast<double>(where.layers) / static_cast<double>(layers.size());
  auto const rank = fssdp::rank_id{0};
  auto const counts_bytes = static_cast<std::size_t>(where.experts) * sizeof(std::uint64_t);
  auto const shape =
      iteration_shape{.dense_seconds = where.non_moe_seconds / 3 / where.layers,
                      .counts_seconds = counts_seconds(where.topology, rank, counts_bytes),
                      .message_seconds = message_seconds(where.topology, rank),
                      .token_messages = static_cast<std::size_t>(where.topology.ranks()) - 1,
                      .prefetch_distance = of.prefetch_distance};
  result.seconds = scale * iteration_seconds(all, shape, of.which.costs.often);
  for (auto& one : all) one.planning = {};
  result.planning_seconds =
      result.seconds - scale * iteration_seconds(all, shape, of.which.costs.often);
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
