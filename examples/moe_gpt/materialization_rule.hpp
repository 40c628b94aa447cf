// SPDX-License-Identifier: Apache-2.0
/// How much memory the experts of a run get beside their shards, and how they are gathered.
#pragma once

#include <algorithm>
#include <cstddef>

#include "expert.hpp"
#include "expert_layouts.hpp"
#include "fssdp/runtime/materializer_options.hpp"
#include "fssdp/solver/fit_slots.hpp"
#include "model_shape.hpp"
#include "options.hpp"
#include "topology_of.hpp"

namespace moe_gpt {

/// Pools that are large enough for what the solver may ask for, unless the command line says how
/// large they are.
[[nodiscard]] inline fssdp::materializer_options materialization_for(
    options const& chosen, expert_layouts const& layouts, fssdp::trace_output const& trace) {
  using fssdp::slot_use;
  auto const slots_of_owners = [&](slot_use use) {
    auto most = std::size_t{0};
    for (auto const l : fssdp::first_n<fssdp::layer_id>(layouts.layers()))
      most = std::max(
          most, fssdp::most_slots_used(fssdp::placement{layouts.layer(l)}, layouts.layer(l), use));
    return most;
  };
  auto const experts = static_cast<std::size_t>(chosen.experts);
  auto const replicas = [&] {
    if (chosen.mode == mode::ep) return std::size_t{0};
    if (chosen.mode == mode::fsdp) return experts;
    return static_cast<std::size_t>(std::min(chosen.spare_slots, chosen.overlap));
  }();
  // If owners change, a rank may come to own all experts of a layer.
  auto const held = chosen.reshard_every > 0
                        ? experts
                        : std::min(experts, slots_of_owners(slot_use::materialized) + replicas);
  auto const per_layer = chosen.wire == wire::fp32
                             ? std::min(experts, slots_of_owners(slot_use::remote) + replicas)
                             : held;

  auto const layers = static_cast<std::size_t>(chosen.layers);
  auto const at_once = std::min(layers, static_cast<std::size_t>(chosen.prefetch) + 1);
  auto result = fssdp::materializer_options{
      .replicas = chosen.rematerialize ? fssdp::retention::rematerialize : fssdp::retention::keep,
      .prefetch_distance = chosen.prefetch,
      .replica_slots = per_layer * ((chosen.rematerialize ? at_once : layers) +
                                    (chosen.calibrate ? std::size_t{1} : 0)),
      .partial_slots =
          held * (chosen.micro_batches > 1 ? layers : std::min<std::size_t>(2, layers)),
      .seconds_per_row = chosen.calibrate ? chosen.seconds_per_row : 0,
      .routing = chosen.routing,
      .topology = topology_of(chosen),
      .load_tolerance = chosen.load_tolerance,
      .plan_ahead = chosen.plan_ahead,
      .trace = trace};
  if (chosen.replica_slots >= 0)  // twice: calibration adds replicas of its own
    result.replica_slots =
        std::min(static_cast<std::size_t>(chosen.replica_slots), 2 * layers * experts);
  return result;
}

}  // namespace moe_gpt
