// SPDX-License-Identifier: Apache-2.0
/// The plan whose reduction adds in rank order, with bits that depend only on the placement.
#pragma once

#include "fssdp/plan/direct_transfers.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

/// The same placement, with whole chunks sent directly from owners to holders. A reduction by it
/// brings all partials to the owner, which adds them in rank order. Gather by a fast plan and
/// reduce by this one, or combine them as `fast.reduced_by(rank_ordered(fast))`: the bits are then
/// the same for every schedule and topology.
///
/// @post verify accepts it; reductions by it give equal bits for all plans of one placement
/// @cost one round; a transfer for every chunk and every holder except its owner, so a chunk may
///       enter or leave a node once for each of its holders; a pure function
[[nodiscard]] inline transfer_plan rank_ordered(transfer_plan const& plan) {
  return plan.realised_by(detail::direct_transfers(plan, plan.where()), 1);
}

}  // namespace fssdp
