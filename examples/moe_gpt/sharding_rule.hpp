// SPDX-License-Identifier: Apache-2.0
/// How the experts of all layers are sharded: at first, and after some steps.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "expert_arena.hpp"
#include "fssdp/cluster/topology.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/cyclic_layout.hpp"
#include "fssdp/solver/heterogeneous_sharding.hpp"
#include "options.hpp"

namespace moe_gpt {

/// Layouts for every layer, as chosen on the command line.
class sharding_rule {
 public:
  sharding_rule(options const& chosen, fssdp::topology const& machine)
      : chosen_{chosen}, machine_{machine} {}

  /// Before anything is known about loads: blocks of whole experts, or slices of every expert on
  /// every rank. Who is to re-shard begins with equally many experts on every rank, over all
  /// layers.
  [[nodiscard]] expert_layouts at_first() const {
    auto const layers = static_cast<std::size_t>(chosen_.layers);
    auto const experts = chosen_.experts;
    auto const ranks = machine_.ranks();
    if (chosen_.reshard_every > 0)
      return by_loads({layers, fssdp::expert_loads(static_cast<std::size_t>(experts), 1)});
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
  /// For the loads of all layers that are expected: [layers] of [experts].
  [[nodiscard]] expert_layouts by_loads(std::vector<fssdp::expert_loads> const& loads) const {
    return expert_layouts{fssdp::heterogeneous_sharding{.overlap = replicated()}(loads, machine_)};
  }

 private:
  /// How many experts of a layer have replicas anyway.
  [[nodiscard]] int replicated() const {
    return chosen_.mode == mode::fssdp && chosen_.spare_slots > 0 ? chosen_.overlap : 0;
  }

  options const& chosen_;
  fssdp::topology machine_;
};

}  // namespace moe_gpt
