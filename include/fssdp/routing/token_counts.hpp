// SPDX-License-Identifier: Apache-2.0
/// How many tokens of every rank go to every expert.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/placement/loads.hpp"

namespace fssdp {

/// A matrix [ranks, experts]. A token that goes to k experts counts k times.
class token_counts {
 public:
  /// @throws argument_error unless there are ranks * experts values
  token_counts(int ranks, int experts, std::vector<std::uint64_t> values)
      : ranks_{ranks}, experts_{experts}, values_{std::move(values)} {
    detail::require(ranks >= 1 && experts >= 1, "token_counts: ", ranks, " ranks, ", experts,
                    " experts; expected 1 or more of each");
    auto const expected = static_cast<std::size_t>(ranks) * static_cast<std::size_t>(experts);
    detail::require(values_.size() == expected, "token_counts: ", values_.size(),
                    " values; expected ", ranks, " ranks times ", experts, " experts");
  }

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int experts() const { return experts_; }
  [[nodiscard]] std::uint64_t operator()(rank_id source, expert_id expert) const {
    return values_[source.index() * static_cast<std::size_t>(experts_) + expert.index()];
  }
  [[nodiscard]] std::span<std::uint64_t const> values() const { return values_; }
  /// Tokens of each expert over all ranks: [experts].
  /// @throws argument_error if they cannot be counted
  [[nodiscard]] expert_loads loads() const {
    auto sums = expert_loads(static_cast<std::size_t>(experts_));
    for (std::size_t i = 0; i < values_.size(); ++i) {
      auto& sum = sums[i % sums.size()];
      sum = detail::add_loads("token_counts", i % sums.size(), sum, values_[i]);
    }
    return sums;
  }

 private:
  int ranks_;
  int experts_;
  std::vector<std::uint64_t> values_;
};

}  // namespace fssdp
