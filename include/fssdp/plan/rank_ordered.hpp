// SPDX-License-Identifier: Apache-2.0
/// The plan whose reduction has bits that depend on nothing but who holds what.
#pragma once

#include "fssdp/plan/direct_transfers.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

/// The same placement realised by whole chunks straight from their owners: its reduction brings
/// every contribution unsummed to the owner, which adds them in rank order. Gather by the plan that
/// is fast and reduce by this one, or have both as `fast.reduced_by(rank_ordered(fast))`: the bits
/// are then the same for every schedule and topology.
///
/// @post verify accepts it; reducing by it gives equal bits for all plans of one placement
/// @cost one round; a transfer for every chunk and holder but its owner, so that a node may be
///       entered and left as often as it has holders; a pure function
[[nodiscard]] inline transfer_plan rank_ordered(transfer_plan const& plan) {
  return plan.realised_by(detail::direct_transfers(plan, plan.where()), 1);
}

}  // namespace fssdp
