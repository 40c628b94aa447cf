// SPDX-License-Identifier: Apache-2.0
/// Tokens per expert over all ranks.
#pragma once

#include <cstddef>

#include "fssdp/collective/all_gather.hpp"
#include "fssdp/placement/loads.hpp"

namespace fssdp {

namespace detail {

/// The sum of rows of loads.
/// @param all [ranks, experts]
/// @throws argument_error if it cannot be counted
[[nodiscard]] expert_loads sum_rows(expert_loads const& all, std::size_t experts);

}  // namespace detail

/// The loads to plan with, from the tokens per expert of this rank: [experts] -> [experts], equal
/// on all ranks. It synchronizes.
/// @cost as all_reduce
/// @throws as all_reduce; argument_error, on all ranks, if the sum cannot be counted
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
