// SPDX-License-Identifier: Apache-2.0
/// Who is to own what, if anything changes.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/solver/resharding_solver.hpp"
#include "fssdp/solver/sharding_solver.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp::detail {

/// The owners that a solver chooses for these loads, [layers] of [experts]; none if all is to stay.
/// @throws argument_error as the solver
template <shard_layout Layout, class Solver>
requires sharding_solver<Solver> || resharding_solver<Solver, Layout>
[[nodiscard]] std::optional<layer_stack<Layout>> next_layouts(layer_stack<Layout> const& current,
                                                              std::span<expert_loads const> loads,
                                                              topology const& cluster,
                                                              Solver const& solve) {
  if constexpr (resharding_solver<Solver, Layout>) {
    auto verdict = solve(current.by_layer(), loads, cluster);
    if (!verdict.layouts.has_value()) return std::nullopt;
    return layer_stack<Layout>{*std::move(verdict.layouts)};
  } else {
    return layer_stack<Layout>{solve(loads, cluster)};
  }
}

}  // namespace fssdp::detail
