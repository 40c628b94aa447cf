// SPDX-License-Identifier: Apache-2.0
/// Rejects plans that do not realise their placement.
#pragma once

#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

/// Simulates the transfers and checks them.
///
/// Every rank that sends a piece has it: it owns the chunk, or received the piece in an earlier
/// round and earlier in canonical order. Every holder of an expert receives each of its pieces
/// exactly once, except those that it owns. Any other rank that receives a piece passes it on. No
/// owner is overwritten. A rank sends a piece in one round only, so that a reduction has all its
/// partials in one exchange. All this also holds for the plan of its reductions.
/// @cost O(transfers + chunks * pieces * ranks); a pure function
/// @throws plan_error that names the first transfer or holder at fault
void verify(transfer_plan const& plan);

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/plan/verify_inl.hpp"
#endif
