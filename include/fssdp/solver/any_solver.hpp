// SPDX-License-Identifier: Apache-2.0
/// Type-erased solvers, to be kept in options.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/solver/owners_only.hpp"
#include "fssdp/solver/placement_solver.hpp"
#include "fssdp/solver/resharding_solver.hpp"
#include "fssdp/solver/sharding_solver.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Any placement solver as one type; by default owners_only.
class any_placement_solver {
 public:
  any_placement_solver() : any_placement_solver{owners_only{}} {}
  template <class Solver>
  requires(!std::same_as<Solver, any_placement_solver>) &&
      placement_solver<Solver, table_layout> any_placement_solver(Solver solve)
      : solve_{[solve = std::move(solve)](std::span<std::uint64_t const> loads,
                                          table_layout const& layout, placement const* before) {
          if constexpr (renewing_solver<Solver, table_layout>)
            if (before != nullptr) return solve(loads, layout, *before);
          return solve(loads, layout);
        }} {}

  [[nodiscard]] placement operator()(std::span<std::uint64_t const> loads,
                                     table_layout const& layout) const {
    return solve_(loads, layout, nullptr);
  }
  /// Continues from an earlier placement if the solver is a renewing_solver; otherwise ignores it.
  [[nodiscard]] placement operator()(std::span<std::uint64_t const> loads,
                                     table_layout const& layout, placement const& before) const {
    return solve_(loads, layout, &before);
  }

 private:
  std::function<placement(std::span<std::uint64_t const>, table_layout const&, placement const*)>
      solve_;
};

namespace detail {

template <class Solver>
concept chooses_owners = sharding_solver<Solver> || resharding_solver<Solver, table_layout>;

}  // namespace detail

/// Any sharding_solver or resharding_solver as one type; by default all owners stay.
class any_sharding_solver {
 public:
  using layouts_type = layer_stack<table_layout>;

  any_sharding_solver() = default;
  template <detail::chooses_owners Solver>
  requires(!std::same_as<Solver, any_sharding_solver>) any_sharding_solver(Solver solve)
      : solve_{[solve = std::move(solve)](
                   layouts_type const& current, std::span<expert_loads const> loads,
                   topology const& topo) { return owners_by(solve, current, loads, topo); }} {}

  /// Whether there is a solver, so that owners may change.
  [[nodiscard]] bool moves_experts() const { return solve_ != nullptr; }
  /// The owners for these loads, [layers] of [experts]; none if owners are to stay.
  /// @throws argument_error as the solver
  [[nodiscard]] std::optional<layouts_type> operator()(layouts_type const& current,
                                                       std::span<expert_loads const> loads,
                                                       topology const& topo) const {
    if (!moves_experts()) return std::nullopt;
    return solve_(current, loads, topo);
  }

 private:
  template <class Solver>
  [[nodiscard]] static std::optional<layouts_type> owners_by(Solver const& solve,
                                                             layouts_type const& current,
                                                             std::span<expert_loads const> loads,
                                                             topology const& topo) {
    if constexpr (resharding_solver<Solver, table_layout>) {
      auto verdict = solve(current.by_layer(), loads, topo);
      if (!verdict.layouts.has_value()) return std::nullopt;
      return tables(*std::move(verdict.layouts));
    } else {
      return tables(solve(loads, topo));
    }
  }
  template <class Layouts>
  [[nodiscard]] static layouts_type tables(Layouts const& layouts) {
    auto all = std::vector<table_layout>{};
    for (auto const& layout : layouts) all.push_back(as_table(layout));
    return layouts_type{std::move(all)};
  }

  std::function<std::optional<layouts_type>(layouts_type const&, std::span<expert_loads const>,
                                            topology const&)>
      solve_;
};

}  // namespace fssdp
