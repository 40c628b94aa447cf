// SPDX-License-Identifier: Apache-2.0
/// Satisfies the concept of a re-sharding solver, except for one thing: LACKS says which, from 1 to
/// 9.
#include <optional>
#include <span>
#include <vector>

#include "fssdp/layout/block_layout.hpp"
#include "fssdp/solver/resharding_solver.hpp"

#ifndef LACKS
#define LACKS 0
#endif

struct near_miss {
  using layout = fssdp::block_layout;
  using current = std::span<layout const>;
  using loads = std::span<fssdp::expert_loads const>;
  using topologies = fssdp::topology;

  struct verdict {
#if LACKS == 1  // not optional
    std::vector<layout> layouts = {};
#elif LACKS == 2  // pointers to layouts
    std::optional<std::vector<layout const*>> layouts = {};
#elif LACKS == 3  // the layout of one layer
    std::optional<layout> layouts = {};
#elif LACKS == 4  // another name
    std::optional<std::vector<layout>> owners = {};
#else
    std::optional<std::vector<layout>> layouts = {};
#endif
  };

#if LACKS == 5  // no call
  verdict solve(current, loads, topologies const&) const { return {}; }
#elif LACKS == 6  // not const
  verdict operator()(current, loads, topologies const&) { return {}; }
#elif LACKS == 7  // without the current layouts
  verdict operator()(loads, topologies const&) const { return {}; }
#elif LACKS == 8  // changes the current layouts
  verdict operator()(std::span<layout>, loads, topologies const&) const { return {}; }
#elif LACKS == 9  // no topology
  verdict operator()(current, loads) const { return {}; }
#else
  verdict operator()(current, loads, topologies const&) const { return {}; }
#endif
};

template <class Layout, fssdp::resharding_solver<Layout> Solver>
void decide(std::vector<Layout> const& current, Solver const& solve) {
  auto const found = solve(current, std::vector<fssdp::expert_loads>(1), fssdp::topology{});
  if (found.layouts.has_value())
    for (auto const& layout : *found.layouts) fssdp::check_layout(layout);
}

void call(near_miss const& solve) { decide(std::vector<fssdp::block_layout>(1), solve); }
