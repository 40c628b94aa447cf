// SPDX-License-Identifier: Apache-2.0
/// Takes replicas away until the memory suffices.
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

/// Which experts take a slot beside the shard: those that a rank does not own whole, or all that it
/// holds (where the copies that are computed with have another type).
enum class slot_use { remote, materialized };

/// How many slots a placement takes on a rank.
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

/// The same on the rank where it takes most.
template <shard_layout Layout>
[[nodiscard]] std::size_t most_slots_used(placement const& where, Layout const& layout,
                                          slot_use use) {
  auto most = 0;
  for (auto const rank : first_n<rank_id>(layout.ranks()))
    most = std::max(most, slots_used(where, layout, rank, use));
  return static_cast<std::size_t>(most);
}

/// The placement with at most `slots` used on every rank: each keeps its most loaded replicas
/// (ties: lower id). Equal on all ranks, as the placement is.
/// @pre check_contains accepts the placement
/// @cost O(ranks * E log E); nothing is copied but the placement
/// @throws argument_error if the experts owned on a rank take more slots by themselves, or on
///         another number of loads
template <shard_layout Layout>
[[nodiscard]] placement fit_slots(placement const& where, Layout const& layout,
                                  std::span<std::uint64_t const> loads, int slots,
                                  slot_use use = slot_use::remote) {
  detail::require_loads("fit_slots", loads, layout.experts());
  auto fitting = placement{layout};
  auto const order = by_load(loads);
  for (auto const rank : first_n<rank_id>(layout.ranks())) {
    auto room = slots - slots_used(fitting, layout, rank, use);
    detail::require(room >= 0, "fit_slots: ", slots, " slots; expected at least ", slots - room,
                    " for the experts owned on rank ", rank);
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
