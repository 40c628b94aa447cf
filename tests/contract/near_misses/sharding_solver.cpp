// SPDX-License-Identifier: Apache-2.0
/// Satisfies the concept of a sharding solver, except for one thing: LACKS says which, from 1 to
/// 11.
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/layout/block_layout.hpp"
#include "fssdp/solver/sharding_solver.hpp"

#ifndef LACKS
#define LACKS 0
#endif

struct near_miss {
  using loads = std::span<fssdp::expert_loads const>;
  using topologies = fssdp::topology;
  using result = std::vector<fssdp::block_layout>;

#if LACKS == 1  // no call
  result solve(loads, topologies const&) const { return {}; }
#elif LACKS == 2   // not const
  result operator()(loads, topologies const&) { return {}; }
#elif LACKS == 3   // no loads
  result operator()(topologies const&) const { return {}; }
#elif LACKS == 4   // no topology
  result operator()(loads) const { return {}; }
#elif LACKS == 5   // loads of one layer
  result operator()(std::span<std::uint64_t const>, topologies const&) const { return {}; }
#elif LACKS == 6   // changes the loads
  result operator()(std::span<fssdp::expert_loads>, topologies const&) const { return {}; }
#elif LACKS == 7   // changes the topology
  result operator()(loads, topologies&) const { return {}; }
#elif LACKS == 8   // returns the layout of one layer
  fssdp::block_layout operator()(loads, topologies const&) const { return {}; }
#elif LACKS == 9   // returns owners that are no layout
  std::vector<std::vector<fssdp::rank_id>> operator()(loads, topologies const&) const { return {}; }
#elif LACKS == 10  // returns pointers
  std::vector<fssdp::block_layout const*> operator()(loads, topologies const&) const { return {}; }
#elif LACKS == 11  // returns nothing
  void operator()(loads, topologies const&) const {}
#else
  result operator()(loads, topologies const&) const { return {}; }
#endif
};

template <fssdp::sharding_solver Solver>
void decide(Solver const& solve) {
  for (auto const& layout : solve(std::vector<fssdp::expert_loads>(1), fssdp::topology{}))
    fssdp::check_layout(layout);
}

void call(near_miss const& solve) { decide(solve); }
