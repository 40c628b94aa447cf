// SPDX-License-Identifier: Apache-2.0
/// The concept of a placement solver: loads and a layout in, a placement out.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include "fssdp/layout/block_layout.hpp"
#include "fssdp/placement/placement.hpp"

namespace fssdp {

/// A pure function: equal loads and layouts give equal placements on every rank. Options are
/// members. The placement contains the layout.
template <class Solver, class Layout = block_layout>
concept placement_solver = requires(Solver const& solve, std::span<std::uint64_t const> loads,
                                    Layout const& layout) {
  { solve(loads, layout) } -> std::same_as<placement>;
};

/// Optional extra: a solver that goes on from the placement before, as loads change little from one
/// iteration to the next. Still a pure function, now of three arguments; placements that repeat need
/// no new plan. Whether the one before is of use is for the solver to find out.
template <class Solver, class Layout = block_layout>
concept renewing_solver = placement_solver<Solver, Layout> &&
    requires(Solver const& solve, std::span<std::uint64_t const> loads, Layout const& layout,
             placement const& before) {
  { solve(loads, layout, before) } -> std::same_as<placement>;
};

namespace detail {

/// @throws argument_error unless there are loads of so many experts
void require_loads(char const* solver, std::span<std::uint64_t const> loads, int experts);

}  // namespace detail
}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/solver/placement_solver_inl.hpp"
#endif
