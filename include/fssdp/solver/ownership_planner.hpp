// SPDX-License-Identifier: Apache-2.0
/// Owners for items of any size, under constraints, with few moves.
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

/// Chooses one owner for every item, such that the fullest rank or interface is as empty as
/// possible.
///
/// Fullness of a rank: the largest of its shares of bytes, step cost and load, each divided by the
/// fair share 1 / ranks, and multiplied by the weight of that amount. Fullness of an interface
/// between nodes: the same for bytes and load of all ranks behind it, multiplied by the weight of
/// interfaces; fair shares are in proportion to bandwidth. 1 is an even distribution; a single item
/// may be larger than a fair share. The planner minimizes the largest fullness plus
/// `price_per_byte` times the bytes that move.
///
/// Items are assigned by size, the largest first, each to where the fullness is then smallest.
/// After that, items of the fullest rank or interface are moved or exchanged as long as it gets
/// emptier. With previous owners, this starts from them, and stops where a further move does not
/// pay. Up to `exact_items` items are solved by branch and bound, within `trials`.
struct ownership_planner {
  /// The weights of amounts in fullness; 0: ignored.
  struct weight_list {
    double bytes = 1;
    double step_cost = 1;
    double load = 1;
    double interface = 1;
    friend bool operator==(weight_list const&, weight_list const&) = default;
  };

  weight_list weights = {};
  double price_per_byte = 0;  ///< the price of a moved byte, in fullness: 1e-12 is 1 per terabyte
  /// The limit of moved bytes. Moves that constraints force are made even beyond it, and count.
  std::uint64_t most_moved_bytes = std::numeric_limits<std::uint64_t>::max();
  double precision = 1e-3;  ///< relative: stops this near the bound; smaller gains move nothing
  std::int64_t trials = 4'000'000;  ///< the limit of moves and exchanges that are tried
  int exact_items = 20;

  /// @param before [items], the current owners, or empty if there are none; rank_id{-1} for an item
  ///               without owner, because it is new or its rank is lost
  /// @post all constraints hold. Nothing moves if the current owners are those that items without
  ///       owners would get. The numbers of items matter only between units (items that go
  ///       together) of equal amounts. Without previous owners, the numbers of ranks and nodes
  ///       matter only between equivalent ones: renumbering does not change the fullness
  /// @throws argument_error if there are no items or no ranks; on a negative option, an item or
  ///         rank that does not exist, or amounts that add up to 2^63 or more; if constraints
  ///         contradict each other: the text names items that cannot have owners
  [[nodiscard]] ownership_plan operator()(std::span<owned_item const> items, topology const& topo,
                                          ownership_constraints const& constraints = {},
                                          std::span<rank_id const> before = {}) const;
};

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/solver/ownership_planner_inl.hpp"
#endif
