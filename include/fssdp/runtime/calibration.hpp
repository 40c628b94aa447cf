// SPDX-License-Identifier: Apache-2.0
/// Whether more replicas pay, once the gate has spoken.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "fssdp/cluster/topology.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/simulate.hpp"
#include "fssdp/solver/fit_slots.hpp"
#include "fssdp/token/token_counts.hpp"
#include "fssdp/token/token_plan.hpp"

namespace fssdp {

/// Replicas to add to a placement that is there already.
struct calibration {
  placement where;            ///< with them
  transfer_plan plan;         ///< moves them, and nothing that is there
  std::size_t slots = 0;      ///< they take so many on the rank where they take most
  double saved_seconds = 0;   ///< the fullest rank has fewer rows
  double gather_seconds = 0;  ///< on idle ports
};

/// What calibration weighs.
struct calibration_options {
  std::size_t slots = 0;  ///< that are left on every rank
  slot_use use = slot_use::foreign;
  std::size_t chunk_bytes = 0;
  double seconds_per_row = 0;  ///< of an expert, forward and backward
  topology cluster = {};
};

/// The replicas that `wanted` has and `where` lacks, most loaded first, as far as slots are left;
/// nothing if there are none. Pure: equal on all ranks.
/// @param wanted the solver's placement for the real loads
/// @post where contains the old placement; the gain is saved_seconds - gather_seconds
/// (Paper, calibration)
template <shard_layout Layout>
[[nodiscard]] std::optional<calibration> calibrate(placement const& where, placement const& wanted,
                                                   Layout const& layout, token_counts const& counts,
                                                   calibration_options const& options) {
  auto together = where;
  auto extra = placement{layout};
  auto slots = std::size_t{0};
  auto adds = false;
  auto const order = by_load(counts.loads());
  for (auto const rank : first_n<rank_id>(layout.ranks())) {
    auto used = static_cast<std::size_t>(slots_used(extra, layout, rank, options.use));
    for (auto const expert : order) {
      if (used >= options.slots) break;
      if (!wanted.holds(rank, expert) || where.holds(rank, expert)) continue;
      together.add(expert, rank);
      extra.add(expert, rank);
      ++used;
      adds = true;
    }
    slots = std::max(slots, used);
  }
  if (!adds || slots > options.slots) return std::nullopt;
  auto const fullest = [&](placement const& of) {
    auto const rows = token_plan{counts, of, rank_id{0}, options.cluster};
    return static_cast<double>(std::ranges::max(rows.device_loads()));
  };
  auto plan = make_plan(layout, extra, options.cluster);
  auto const saved = (fullest(where) - fullest(together)) * options.seconds_per_row;
  auto const seconds = simulate(plan, options.chunk_bytes).seconds;
  return calibration{std::move(together), std::move(plan), slots, saved, seconds};
}

}  // namespace fssdp
