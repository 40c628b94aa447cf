// SPDX-License-Identifier: Apache-2.0
/// Tokens per expert, summed over all ranks.
#pragma once

#include <cstddef>

#include "fssdp/collective/all_gather.hpp"
#include "fssdp/placement/loads.hpp"

namespace fssdp {

namespace detail {

/// The sum of the rows of `all`.
/// @param all [ranks, experts]
/// @throws argument_error if a sum is too large to be counted
[[nodiscard]] expert_loads sum_rows(expert_loads const& all, std::size_t experts);

}  // namespace detail

/// Sums the tokens per expert over all ranks: [experts] -> [experts]. These are the loads to plan
/// with, equal on all ranks. Blocks until they are there (it synchronizes the communicator).
/// @cost as all_reduce
/// @throws as all_reduce; argument_error, on all ranks, if a sum is too large to be counted
template <communicator Comm>
[[nodiscard]] expert_loads sum_loads(Comm& comm, expert_loads const& mine) {
  auto all = expert_loads(static_cast<std::size_t>(comm.size()) * mine.size());
  all_gather(comm, mine, all);
  return detail::sum_rows(all, mine.size());
}

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/collective/sum_loads_inl.hpp"
#endif
