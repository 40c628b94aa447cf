// SPDX-License-Identifier: Apache-2.0
/// Tokens per expert over all ranks.
#pragma once

#include "fssdp/comm/all_reduce.hpp"
#include "fssdp/placement/loads.hpp"

namespace fssdp {

/// The loads to plan with, from the tokens per expert of this rank: [experts] -> [experts], equal
/// on all ranks. It synchronizes.
/// @cost, @throws as all_reduce
template <communicator Comm>
[[nodiscard]] expert_loads sum_loads(Comm& comm, expert_loads const& mine) {
  return all_reduce(comm, mine);
}

}  // namespace fssdp
