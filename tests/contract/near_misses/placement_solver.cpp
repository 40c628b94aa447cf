// SPDX-License-Identifier: Apache-2.0
/// Satisfies the concept of a placement solver, except for one thing: LACKS says which, from 1 to
/// 10.
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/layout/cyclic_layout.hpp"
#include "fssdp/solver/placement_solver.hpp"

#ifndef LACKS
#define LACKS 0
#endif

struct near_miss {
  using loads = std::span<std::uint64_t const>;
  using layout = fssdp::block_layout;
  using result = fssdp::placement;

#if LACKS == 1  // no call
  result solve(loads, layout const& of) const { return result{of}; }
#elif LACKS == 2   // not const
  result operator()(loads, layout const& of) { return result{of}; }
#elif LACKS == 3   // no loads
  result operator()(layout const& of) const { return result{of}; }
#elif LACKS == 4   // no layout
  result operator()(loads) const { return {}; }
#elif LACKS == 5   // loads of another type
  result operator()(std::span<double const>, layout const& of) const { return result{of}; }
#elif LACKS == 6   // changes the loads
  result operator()(std::span<std::uint64_t>, layout const& of) const { return result{of}; }
#elif LACKS == 7   // changes the layout
  result operator()(loads, layout& of) const { return result{of}; }
#elif LACKS == 8   // for another type of layout
  result operator()(loads, fssdp::cyclic_layout const& of) const { return result{of}; }
#elif LACKS == 9   // returns something else
  std::vector<fssdp::rank_id> operator()(loads, layout const&) const { return {}; }
#elif LACKS == 10  // returns a reference
  result const& operator()(loads, layout const&) const { return kept; }
  result kept;
#else
  result operator()(loads, layout const& of) const { return result{of}; }
#endif
};

template <fssdp::placement_solver Solver>
fssdp::placement decide(Solver const& solve) {
  return solve(std::vector<std::uint64_t>(1), fssdp::block_layout{});
}

fssdp::placement call(near_miss const& solve) { return decide(solve); }
