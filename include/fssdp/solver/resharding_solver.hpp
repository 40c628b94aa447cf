// SPDX-License-Identifier: Apache-2.0
/// The concept of a sharding solver that may keep the owners.
#pragma once

#include <concepts>
#include <ranges>
#include <span>

#include "fssdp/layout/shard_layout.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// A pure function, as a sharding_solver, which also gets the current owners: `solve(current,
/// loads, topology)` takes [layers] layouts and loads, and returns a value whose `layouts`, an
/// optional, has [layers] layouts if owners are to change.
template <class Solver, class Layout>
concept resharding_solver = shard_layout<Layout> &&
    requires(Solver const& solve, std::span<Layout const> current,
             std::span<expert_loads const> loads, topology const& topo) {
  { solve(current, loads, topo).layouts.has_value() } -> std::convertible_to<bool>;
  requires shard_layout<std::ranges::range_value_t<decltype(*solve(current, loads, topo).layouts)>>;
};

}  // namespace fssdp
