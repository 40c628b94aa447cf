// SPDX-License-Identifier: Apache-2.0
/// The sums that remain to be formed after another library has exchanged partial gradients.
#pragma once

#include <span>
#include <vector>

#include "fssdp/element/accumulate.hpp"
#include "rank_memory.hpp"

namespace perf {

/// Sums what a rank owns, in rank order.
/// @param received called as received(holder) for every partial that came from elsewhere, by
///        ascending experts, then holders; returns where it lies
template <class T, class Received>
void sum_received(rank_memory<T>& mine, Received received) {
  auto operands = std::vector<fssdp::summand>{};
  for (auto const expert : mine.wanted()) {
    operands.clear();
    for (auto const holder : mine.plan().where().holders(expert))
      operands.push_back(
          {.partial = holder == mine.rank() ? mine.given(expert).data() : received(holder)});
    fssdp::accumulate<T>(operands, mine.taken(expert));
  }
}

}  // namespace perf
