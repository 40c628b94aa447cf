// SPDX-License-Identifier: Apache-2.0
/// Chooses the transfers that realise a placement.
#pragma once

#include <cstddef>

#include "fssdp/plan/plan_tables.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

namespace detail {

/// make_plan for tables.
[[nodiscard]] transfer_plan make_plan(plan_tables tables);

}  // namespace detail

/// For chunks of this size or larger, make_plan guarantees not to be slower than direct transfers.
inline constexpr auto least_planned_bytes = std::size_t{4'000'000};

/// A plan of whole chunks. Every chunk enters each node once and spreads from there; or, where that
/// may be slower, its owner sends it to all other holders (the direct plan).
///
/// Between nodes a chunk travels along a chain, so that no node sends it twice; the last nodes of
/// the chains are chosen to balance what nodes send (node_chains). The direct plan has one round.
/// It is chosen on one node, without a topology, and wherever chains might take longer for some
/// chunk of `least_planned_bytes` or more: where interfaces are about as fast as ports inside a
/// node, or ports differ. For smaller chunks latency dominates, which a chain pays once per node:
/// use `schedule`, which knows the size.
/// @pre in the placement every owner holds its experts; the topology has the ranks of the layout
/// @post verify(plan) accepts it. It has one transfer for every chunk and every holder of its
///       expert except the owner. Between nodes there is one transfer per chunk and other node that
///       holds its expert, or all transfers are from owners. simulate(plan, bytes) takes no longer
///       than simulate(rank_ordered(plan), bytes) for any bytes >= least_planned_bytes
/// @cost at most `nodes` rounds; a pure function of its arguments
/// @throws argument_error if layout, placement and topology do not fit together
template <shard_layout Layout>
[[nodiscard]] transfer_plan make_plan(Layout const& layout, placement const& where,
                                      topology const& topo = {}) {
  return detail::make_plan({layout, where, topo});
}

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/plan/make_plan_inl.hpp"
#endif
