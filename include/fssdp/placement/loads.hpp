// SPDX-License-Identifier: Apache-2.0
/// Tokens per expert.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/core/index.hpp"

namespace fssdp {

/// Tokens of each expert, over all ranks: [experts].
using expert_loads = std::vector<std::uint64_t>;

/// All experts, by (load descending, id ascending).
[[nodiscard]] inline std::vector<expert_id> by_load(std::span<std::uint64_t const> of) {
  auto order = std::vector<expert_id>{};
  for (auto const expert : first_n<expert_id>(static_cast<int>(of.size()))) order.push_back(expert);
  std::ranges::stable_sort(order,
                           [&](expert_id a, expert_id b) { return of[a.index()] > of[b.index()]; });
  return order;
}

/// The fullest part over the average part: 1 is perfect balance; 1 as well if all is empty.
[[nodiscard]] inline double max_over_mean(std::span<std::uint64_t const> of) {
  auto sum = std::uint64_t{0};
  for (auto const load : of) sum += load;
  if (sum == 0) return 1.0;
  return static_cast<double>(std::ranges::max(of)) * static_cast<double>(of.size()) /
         static_cast<double>(sum);
}

}  // namespace fssdp
