// SPDX-License-Identifier: Apache-2.0
/// Checks and adds counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/routing/token_counts.hpp"

namespace fssdp {

FSSDP_INLINE token_counts::token_counts(int ranks, int experts, std::vector<std::uint64_t> values)
    : ranks_{ranks}, experts_{experts}, values_{std::move(values)} {
  detail::require(ranks >= 1 && experts >= 1, "token_counts: ", ranks, " ranks, ", experts,
                  " experts; expected 1 or more of each");
  auto const expected = static_cast<std::size_t>(ranks) * static_cast<std::size_t>(experts);
  detail::require(values_.size() == expected, "token_counts: ", values_.size(),
                  " values; expected ", ranks, " ranks times ", experts, " experts");
}

FSSDP_INLINE expert_loads token_counts::loads() const {
  auto sums = expert_loads(static_cast<std::size_t>(experts_));
  for (std::size_t i = 0; i < values_.size(); ++i) {
    auto& sum = sums[i % sums.size()];
    sum = detail::add_loads("token_counts", i % sums.size(), sum, values_[i]);
  }
  return sums;
}

}  // namespace fssdp
