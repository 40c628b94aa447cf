// SPDX-License-Identifier: Apache-2.0
/// The concept of a sharding solver: a function from the loads of all layers to their layouts.
#pragma once

#include <ranges>
#include <span>

#include "fssdp/layout/shard_layout.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// A pure function: equal loads and topologies give equal layouts on every rank. Its options are
/// members. `solve(loads, topology)` takes [layers] loads of [experts] and returns [layers] layouts
/// over the ranks of the topology.
template <class Solver>
concept sharding_solver = requires(Solver const& solve, std::span<expert_loads const> loads,
                                   topology const& topo) {
  { solve(loads, topo) } -> std::ranges::forward_range;
  requires shard_layout<std::ranges::range_value_t<decltype(solve(loads, topo))>>;
};

}  // namespace fssdp
