// SPDX-License-Identifier: Apache-2.0
/// How the experts of all layers are sharded: at first, and after some steps.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "expert.hpp"
#include "expert_layouts.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/cyclic_layout.hpp"
#include "fssdp/solver/heterogeneous_sharding.hpp"
#include "fssdp/solver/resharding.hpp"
#include "fssdp/topology/topology.hpp"
#include "options.hpp"
#include "placement_rule.hpp"

namespace moe_gpt {

/// Layouts for every layer, as chosen on the command line.
class sharding_rule {
 public:
  sharding_rule(options const& chosen, fssdp::topology const& topo, placement_rule const& solve)
      : chosen_{chosen}, topo_{topo}, solve_{solve} {}

  /// Before anything is known about loads: blocks of whole experts, or slices of every expert on
  /// every rank. Who is to re-shard begins with equally many experts on every rank, over all
  /// layers.
  [[nodiscard]] expert_layouts at_first() const {
    auto const layers = static_cast<std::size_t>(chosen_.layers);
    auto const experts = chosen_.experts;
    auto const ranks = topo_.ranks();
    if (chosen_.reshard_every > 0)
      return expert_layouts{by_load()(
          std::vector(layers, fssdp::expert_loads(static_cast<std::size_t>(experts), 1)), topo_)};
    auto const all = [&](auto const& layout) {
      return expert_layouts{std::vector(layers, as_table(layout))};
    };
    if (chosen_.mode == mode::fsep)
      return all(fssdp::cyclic_layout{{.experts = experts, .ranks = ranks, .slices = ranks}});
    return all(fssdp::block_layout{{.experts = experts, .ranks = ranks}});
  }

  [[nodiscard]] bool is_due(int step) const {
    return chosen_.reshard_every > 0 && step > 0 && step % chosen_.reshard_every == 0;
  }
  /// Other owners for the loads that are expected, [layers] of [experts], if ranks finish
  /// sooner by more than it takes to move parameters and moments.
  [[nodiscard]] std::optional<expert_layouts> if_it_pays(
      expert_layouts const& now, std::vector<fssdp::expert_loads> const& loads) const {
    auto const weigh = fssdp::resharding<fssdp::heterogeneous_sharding, placement_rule>{
        .sharding = by_load(),
        .materialization = solve_,
        .seconds_per_row = chosen_.seconds_per_row,
        .chunk_bytes = 3 * sizeof(float) * parameters_of_expert(shape_of(chosen_)),
        .iterations = chosen_.reshard_every};
    auto verdict = weigh(now.by_layer(), loads, topo_);
    if (!verdict.layouts.has_value()) return std::nullopt;
    return expert_layouts{*std::move(verdict.layouts)};
  }

 private:
  /// By load, but for as many experts of a layer as have replicas anyway.
  [[nodiscard]] fssdp::heterogeneous_sharding by_load() const {
    auto const replicated = chosen_.mode == mode::fssdp && chosen_.spare_slots > 0;
    return {.overlap = replicated ? chosen_.overlap : 0};
  }

  options const& chosen_;
  fssdp::topology topo_;
  placement_rule solve_;
};

}  // namespace moe_gpt
