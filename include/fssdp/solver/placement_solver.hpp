// SPDX-License-Identifier: Apache-2.0
/// The concept of a placement solver: loads and a layout in, a placement out.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include "fssdp/core/error.hpp"
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

namespace detail {

template <shard_layout Layout>
void require_loads(char const* solver, std::span<std::uint64_t const> loads, Layout const& layout) {
  require(loads.size() == static_cast<std::size_t>(layout.experts()), solver, ": loads of ",
          loads.size(), " experts; expected ", layout.experts());
}

}  // namespace detail
}  // namespace fssdp
