// SPDX-License-Identifier: Apache-2.0
/// Sums, orders and compares loads.
#pragma once

#include <algorithm>
#include <cmath>
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
  require(b <= most - a, caller, ": the loads of expert ", expert, ", ", a, " and ", b,
          " tokens, are too large to add; expected at most ", most, " in all");
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
  auto wraps = 0.0;  // of the sum: how often it has passed 2^64
  for (auto const load : of) {
    sum += load;
    wraps += sum < load ? 1 : 0;
  }
  if (sum == 0 && wraps == 0) return 1.0;
  return static_cast<double>(*std::max_element(of.begin(), of.end())) *
         static_cast<double>(of.size()) / (wraps * 0x1p64 + static_cast<double>(sum));
}

FSSDP_INLINE double load_change(std::span<std::uint64_t const> before,
                                std::span<std::uint64_t const> now) {
  detail::require(before.size() == now.size(), "load_change: ", before.size(), " loads before and ",
                  now.size(), " now; expected equal numbers");
  auto const sum_of = [](std::span<std::uint64_t const> loads) {
    auto sum = 0.0;
    for (auto const load : loads) sum += static_cast<double>(load);
    return sum;
  };
  auto const old_sum = sum_of(before);
  auto const new_sum = sum_of(now);
  if (old_sum == 0 || new_sum == 0) return old_sum == new_sum ? 0 : 1;
  auto distance = 0.0;
  for (std::size_t e = 0; e < now.size(); ++e)
    distance +=
        std::abs(static_cast<double>(now[e]) / new_sum - static_cast<double>(before[e]) / old_sum);
  return std::min(1.0, distance / 2);
}

}  // namespace fssdp
