// SPDX-License-Identifier: Apache-2.0
/// Refuses plans that would not deliver what their placement promises.
#pragma once

#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

/// Replays a plan.
///
/// Every rank that sends a piece has it by then: it owns its chunk, or it got it in an earlier
/// round and earlier in canonical order. Every holder of an expert gets each of its pieces exactly
/// once, but those it owns; whoever else gets one passes it on; no owner is overwritten. A rank
/// sends a piece in one round only, so that the reduction finds all partial sums in one exchange.
/// All that holds for the plan of its reductions, too.
/// @cost O(transfers + chunks * pieces * ranks); a pure function
/// @throws plan_error that names the first transfer or holder at fault
void verify(transfer_plan const& plan);

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/plan/verify_inl.hpp"
#endif
