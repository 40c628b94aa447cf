// SPDX-License-Identifier: Apache-2.0
/// Owners for items of any size, under constraints, with as few moves as pay.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "fssdp/core/index.hpp"
#include "fssdp/solver/owned_item.hpp"
#include "fssdp/solver/ownership_constraints.hpp"
#include "fssdp/solver/ownership_plan.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// One owner for every item, such that the fullest place is as empty as it gets.
///
/// How full a rank is: the largest of its shares of bytes, step cost and load, each over its fair
/// share, which is one part in as many as there are ranks, times the weight of that amount. How
/// full an interface between nodes is: the same for bytes and load of the ranks behind it, times
/// the weight of interfaces; what is fair there goes by bandwidth. 1 is even; a single item may be
/// more than is fair. What is minimized is the fullness of the fullest place, plus
/// `price_per_byte` times the bytes that move.
///
/// Items go by size, the largest first, each to the place that is emptiest with it. Then the
/// fullest place gives an item away or exchanges two, as long as it gets emptier. Where owners of
/// before are given, the same starts from these, and ends where a further move does not pay. Up to
/// `exact_items` items are solved by branch and bound, unless `trials` are over.
/// @cost O((items + trials) log ranks), and the size of the constraints; a pure function
struct ownership_planner {
  /// How much an amount counts; 0: not at all.
  struct weight_list {
    double bytes = 1;
    double step_cost = 1;
    double load = 1;
    double interface = 1;
    friend bool operator==(weight_list const&, weight_list const&) = default;
  };

  weight_list weights = {};
  double price_per_byte = 0;  ///< what a moved byte costs, in fullness: 1e-12 is 1 for a terabyte
  /// At most as many bytes move. What constraints force to move is not refused, but counts.
  std::uint64_t most_moved_bytes = std::numeric_limits<std::uint64_t>::max();
  double precision = 1e-3;  ///< good enough: how far from the bound; a smaller gain moves nothing
  std::int64_t trials = 4'000'000;  ///< moves and exchanges that are looked at
  int exact_items = 20;

  /// @param before [items], or empty if there are none: the owners of now; rank_id{-1} for an item
  ///               that has none, as it is new or its rank is lost
  /// @post all constraints hold; nothing moves if these owners are those that would be given to
  ///       items without owners. Names of items decide only between units (items that go together)
  ///       of equal amounts. Without owners of before, names of ranks and nodes decide only between
  ///       such as are alike: by other names the fullest place is as full
  /// @throws argument_error unless there is an item and a rank; on a negative option, on an item or
  ///         rank that does not exist, on amounts that add up to 2^63 or more; if constraints
  ///         contradict each other: the text names items which cannot have owners
  [[nodiscard]] ownership_plan operator()(std::span<owned_item const> items, topology const& topo,
                                          ownership_constraints const& constraints = {},
                                          std::span<rank_id const> before = {}) const;
};

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/solver/ownership_planner_inl.hpp"
#endif
