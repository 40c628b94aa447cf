// SPDX-License-Identifier: Apache-2.0
/// Sums of small values over all ranks: loads, gradient norms, losses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ranges>
#include <vector>

#include "fssdp/comm/all_gather.hpp"
#include "fssdp/placement/loads.hpp"

namespace fssdp {

/// The element-wise sum over all ranks: [n] on every rank -> [n], the same bits on every rank, as
/// the summands are added in rank order. Returns when it is known (it synchronizes).
/// @pre the same n on all ranks
/// @cost size - 1 messages of n elements out and in; one allocation of size * n elements
/// @throws transport errors
template <communicator Comm, std::ranges::contiguous_range Values>
[[nodiscard]] auto sum(Comm& comm, Values const& mine) {
  using T = std::ranges::range_value_t<Values>;
  auto const n = std::ranges::size(mine);
  auto all = std::vector<T>(static_cast<std::size_t>(comm.size()) * n);
  all_gather(comm, mine, all);
  auto total = std::vector<T>(n);
  for (std::size_t i = 0; i < all.size(); ++i) total[i % n] += all[i];
  return total;
}

/// Tokens per expert over all ranks, from the tokens per expert of this rank: [experts].
/// @cost as sum
template <communicator Comm>
[[nodiscard]] expert_loads sum_loads(Comm& comm, expert_loads const& mine) {
  return sum(comm, mine);
}

}  // namespace fssdp
