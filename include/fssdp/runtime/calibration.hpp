// SPDX-License-Identifier: Apache-2.0
/// Calibration: whether more replicas pay, once the router has chosen experts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "fssdp/placement/loads.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/simulate.hpp"
#include "fssdp/routing/routing_rule.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/routing/token_traffic.hpp"
#include "fssdp/solver/fit_slots.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Replicas that are added to the placement of a layer.
struct calibration {
  placement where;     ///< the placement with the added replicas
  transfer_plan plan;  ///< moves them; existing ones only if all holders receive the expert again
  std::size_t slots = 0;      ///< that the plan takes, on the rank where it takes most
  double saved_seconds = 0;   ///< of computation, as the fullest rank has fewer rows
  double gather_seconds = 0;  ///< that the plan takes on idle ports
};

/// Which ranks receive an expert for which replicas are added. Where experts travel as payloads of
/// a codec, all ranks that hold it, so that they have the same bits.
enum class receivers { newcomers, all_holders };

/// What calibration computes with.
struct calibration_options {
  std::size_t slots = 0;  ///< free ones, on every rank
  slot_use use = slot_use::remote;
  receivers to = receivers::newcomers;
  std::size_t chunk_bytes = 0;
  double seconds_per_row = 0;  ///< of an expert, forward and backward
  fssdp::topology topology = {};
  routing_rule routing = routing_rule::even;  ///< how tokens will be sent to replicas
};

namespace detail {

/// The ranks that hold an expert in one placement and not in another.
[[nodiscard]] inline std::vector<rank_id> holders_without(placement const& where, expert_id expert,
                                                          placement const& other) {
  auto list = std::vector<rank_id>{};
  for (auto const rank : where.holders(expert))
    if (!other.holds(rank, expert)) list.push_back(rank);
  return list;
}

}  // namespace detail

/// Chooses the replicas that `wanted` has and `where` lacks, most loaded experts first, until the
/// free slots are taken. Nothing if there are none to add. Pure: equal on all ranks.
/// @param wanted the solver's placement for the real loads
/// @post the new placement contains the old one; it gains saved_seconds - gather_seconds
/// (Paper, calibration)
template <shard_layout Layout>
[[nodiscard]] std::optional<calibration> calibrate(placement const& where, placement const& wanted,
                                                   Layout const& layout, token_counts const& counts,
                                                   calibration_options const& options) {
  auto together = where;
  auto extra = placement{layout};
  auto used = std::vector<std::size_t>{};
  for (auto const rank : first_n<rank_id>(layout.ranks()))
    used.push_back(static_cast<std::size_t>(slots_used(extra, layout, rank, options.use)));
  auto const first_slots = used;
  auto const order = by_load(counts.loads());
  for (auto const rank : first_n<rank_id>(layout.ranks()))
    for (auto const expert : order) {
      if (used[rank.index()] >= options.slots) break;
      if (!wanted.holds(rank, expert) || where.holds(rank, expert)) continue;
      auto const others = options.to == receivers::all_holders
                              ? detail::holders_without(where, expert, extra)
                              : std::vector<rank_id>{};
      if (std::ranges::any_of(others, [&](rank_id r) { return used[r.index()] >= options.slots; }))
        continue;
      together.add(expert, rank);
      extra.add(expert, rank);
      ++used[rank.index()];
      for (auto const other : others) {
        extra.add(expert, other);
        ++used[other.index()];
      }
    }
  auto const slots = std::ranges::max(used);
  if (used == first_slots || slots > options.slots) return std::nullopt;
  auto const fullest = [&](placement const& of) {
    return with_routing(options.routing, counts, of, options.topology, [&](auto const& routing) {
      auto const tokens = token_traffic{counts, routing, options.topology};
      return static_cast<double>(std::ranges::max(tokens.on_rank));
    });
  };
  auto plan = make_plan(layout, extra, options.topology);
  auto const saved = (fullest(where) - fullest(together)) * options.seconds_per_row;
  auto const seconds = simulate(plan, options.chunk_bytes).seconds;
  return calibration{std::move(together), std::move(plan), slots, saved, seconds};
}

}  // namespace fssdp
