// SPDX-License-Identifier: Apache-2.0
/// Gloo over TCP, between the same threads.
#pragma once

#include "any_memory.hpp"
#include "contestant.hpp"
#include "names.hpp"

namespace perf {

/// @throws std::invalid_argument if the program was built without Gloo
void require_gloo();

/// One call for all transfers, one for each expert, or one for all blocks of an array; the contexts
/// are connected here.
/// @param of [rank]; their plan is a direct one
/// @pre require_gloo() is content; Gloo sums fp32 and fp64 only
[[nodiscard]] contestant gloo_contestant(baseline which, any_world_memory of);

}  // namespace perf
