// SPDX-License-Identifier: Apache-2.0
/// Tokens per expert over all ranks.
#pragma once

#include <cstddef>

#include "fssdp/collective/all_gather.hpp"
#include "fssdp/placement/loads.hpp"

namespace fssdp {

/// The loads to plan with, from the tokens per expert of this rank: [experts] -> [experts], equal
/// on all ranks. It synchronizes.
/// @cost as all_reduce
/// @throws as all_reduce; argument_error, on all ranks, if the sum cannot be counted
template <communicator Comm>
[[nodiscard]] expert_loads sum_loads(Comm& comm, expert_loads const& mine) {
  auto all = expert_loads(static_cast<std::size_t>(comm.size()) * mine.size());
  all_gather(comm, mine, all);
  auto total = expert_loads(mine.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto& sum = total[i % mine.size()];
    sum = detail::add_loads("sum_loads", i % mine.size(), sum, all[i]);
  }
  return total;
}

}  // namespace fssdp
