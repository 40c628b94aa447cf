// SPDX-License-Identifier: Apache-2.0
/// The concept of a placement solver: a function from loads and a layout to a placement.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include "fssdp/layout/block_layout.hpp"
#include "fssdp/placement/placement.hpp"

namespace fssdp {

/// A pure function: equal loads and layouts give equal placements on every rank. Its options are
/// members. In the placement, every owner holds its experts.
template <class Solver, class Layout = block_layout>
concept placement_solver = requires(Solver const& solve, std::span<std::uint64_t const> loads,
                                    Layout const& layout) {
  { solve(loads, layout) } -> std::same_as<placement>;
};

/// Optional: a solver that can start from the previous placement, as loads change little from one
/// iteration to the next. Also a pure function, of three arguments. If it returns the same
/// placement, no new plan is needed. The solver itself decides whether to use the previous one.
template <class Solver, class Layout = block_layout>
concept renewing_solver = placement_solver<Solver, Layout> &&
    requires(Solver const& solve, std::span<std::uint64_t const> loads, Layout const& layout,
             placement const& before) {
  { solve(loads, layout, before) } -> std::same_as<placement>;
};

namespace detail {

/// @throws argument_error unless there are as many loads as experts
void require_loads(char const* solver, std::span<std::uint64_t const> loads, int experts);

}  // namespace detail
}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/solver/placement_solver_inl.hpp"
#endif
