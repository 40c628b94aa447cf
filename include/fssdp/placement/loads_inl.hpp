// SPDX-License-Identifier: Apache-2.0
/// How loads are added, ordered and judged.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/placement/loads.hpp"

namespace fssdp {

namespace detail {

FSSDP_INLINE std::uint64_t add_loads(char const* caller, std::size_t expert, std::uint64_t a,
                                     std::uint64_t b) {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  require(b <= most - a, caller, ": expert ", expert, " has ", a, " tokens and ", b,
          " more; expected at most ", most, " in all");
  return a + b;
}

}  // namespace detail

FSSDP_INLINE std::vector<expert_id> by_load(std::span<std::uint64_t const> of) {
  auto order = std::vector<expert_id>{};
  for (auto const expert : first_n<expert_id>(static_cast<int>(of.size()))) order.push_back(expert);
  std::stable_sort(order.begin(), order.end(),
                   [&](expert_id a, expert_id b) { return of[a.index()] > of[b.index()]; });
  return order;
}

FSSDP_INLINE double max_over_mean(std::span<std::uint64_t const> of) {
  auto sum = std::uint64_t{0};
  auto wraps = 0.0;  // of the sum, each of them 2^64
  for (auto const load : of) {
    sum += load;
    wraps += sum < load ? 1 : 0;
  }
  if (sum == 0 && wraps == 0) return 1.0;
  return static_cast<double>(*std::max_element(of.begin(), of.end())) *
         static_cast<double>(of.size()) / (wraps * 0x1p64 + static_cast<double>(sum));
}

}  // namespace fssdp
