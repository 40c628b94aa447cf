// SPDX-License-Identifier: Apache-2.0
/// Removes replicas until a placement fits into memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/solver/placement_solver.hpp"

namespace fssdp {

/// Which experts take slots besides the shard: those that a rank does not own whole, or all that it
/// holds (if it computes with converted or decoded copies).
enum class slot_use { remote, materialized };

/// The number of slots that a placement takes on a rank.
template <shard_layout Layout>
[[nodiscard]] int slots_used(placement const& where, Layout const& layout, rank_id rank,
                             slot_use use) {
  auto count = 0;
  for (auto const expert : first_n<expert_id>(where.experts()))
    if (where.holds(rank, expert) &&
        (use == slot_use::materialized || layout.slices() > 1 || layout.owner(expert) != rank))
      ++count;
  return count;
}

/// The same for the rank where it takes most.
template <shard_layout Layout>
[[nodiscard]] std::size_t most_slots_used(placement const& where, Layout const& layout,
                                          slot_use use) {
  auto most = 0;
  for (auto const rank : first_n<rank_id>(layout.ranks()))
    most = std::max(most, slots_used(where, layout, rank, use));
  return static_cast<std::size_t>(most);
}

/// Returns a placement that takes at most `slots` slots on every rank: each rank keeps its most
/// loaded replicas (ties: lower id). A pure function: equal on all ranks.
/// @pre check_contains accepts the placement
/// @cost O(ranks * E log E); nothing is copied but the placement
/// @throws argument_error if the owned experts of a rank alone take more slots, or if there are not
///         as many loads as experts
template <shard_layout Layout>
[[nodiscard]] placement fit_slots(placement const& where, Layout const& layout,
                                  std::span<std::uint64_t const> loads, int slots,
                                  slot_use use = slot_use::remote) {
  detail::require_loads("fit_slots", loads, layout.experts());
  auto fitting = placement{layout};
  auto const order = by_load(loads);
  for (auto const rank : first_n<rank_id>(layout.ranks())) {
    auto room = slots - slots_used(fitting, layout, rank, use);
    detail::require(room >= 0, "fit_slots: ", slots, " slots on rank ", rank,
                    "; expected at least ", slots - room, ", which its own experts take");
    for (auto const expert : order) {
      if (room == 0) break;
      if (!where.holds(rank, expert) || fitting.holds(rank, expert)) continue;
      fitting.add(expert, rank);
      --room;
    }
  }
  return fitting;
}

}  // namespace fssdp
