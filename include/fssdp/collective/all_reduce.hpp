// SPDX-License-Identifier: Apache-2.0
/// Sums of a few values over all ranks: gradient norms, losses, loads.
#pragma once

#include <cstddef>
#include <ranges>
#include <vector>

#include "fssdp/collective/all_gather.hpp"

namespace fssdp {

/// Sums element-wise over all ranks: [n] on every rank -> [n]. The summands are added in rank
/// order, so all ranks get the same bits. Blocks until the sum is there (it synchronizes the
/// communicator).
/// @pre n is the same on all ranks
/// @cost one exchange: size - 1 messages of n elements sent, and as many received; two allocations
/// @throws transport errors
template <communicator Comm, std::ranges::contiguous_range Values>
[[nodiscard]] auto all_reduce(Comm& comm, Values const& mine) {
  using T = std::ranges::range_value_t<Values>;
  auto const n = std::ranges::size(mine);
  auto all = std::vector<T>(static_cast<std::size_t>(comm.size()) * n);
  all_gather(comm, mine, all);
  auto total = std::vector<T>(n);
  for (std::size_t i = 0; i < all.size(); ++i) total[i % n] += all[i];
  return total;
}

}  // namespace fssdp
