// SPDX-License-Identifier: Apache-2.0
/// Chooses the transfers that realise a placement.
#pragma once

#include <cstddef>

#include "fssdp/plan/plan_tables.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

namespace detail {

/// As make_plan.
[[nodiscard]] transfer_plan make_plan(plan_tables tables);

}  // namespace detail

/// From this size of chunks on make_plan takes care not to be slower than direct transfers.
inline constexpr auto least_planned_bytes = std::size_t{4'000'000};

/// A plan of whole chunks: every chunk enters a node once and spreads from there, or, where that
/// may be slower, the direct plan.
///
/// Between nodes a chunk travels along a chain, so that no node sends it twice; the chains' ends
/// are chosen to even out what the nodes send (node_chains). In the direct plan the owner of every
/// chunk sends it to all other holders, in one round. It is taken on one node, without a topology,
/// and wherever the ports of the topology are such that chains might take longer than it for chunks
/// of `least_planned_bytes` or more: where interfaces are about as fast as ports inside a node, or
/// ports are unequal. Chunks of less are a matter of latency, which chains pay once for every node:
/// `schedule`, which is told the size, looks after them.
/// @pre the placement contains the layout; the topology has its ranks
/// @post verify(plan) accepts it; a transfer for every chunk and holder of its expert but its
///       owner; all from the owners, or between nodes only as many as there are (chunk, other node
///       that holds its expert); simulate(plan, bytes) takes no longer than simulate(
///       rank_ordered(plan), bytes) for any bytes >= least_planned_bytes
/// @cost at most `nodes` rounds; a pure function of its arguments
/// @throws argument_error if the three do not fit together
template <shard_layout Layout>
[[nodiscard]] transfer_plan make_plan(Layout const& layout, placement const& where,
                                      topology const& topo = {}) {
  return detail::make_plan({layout, where, topo});
}

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/plan/make_plan_inl.hpp"
#endif
