// SPDX-License-Identifier: Apache-2.0
/// How many tokens of every rank are sent to every expert.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/placement/loads.hpp"

namespace fssdp {

/// A matrix [ranks, experts]. A token that is sent to k experts counts k times.
class token_counts {
 public:
  /// @throws argument_error unless there are ranks * experts values
  token_counts(int ranks, int experts, std::vector<std::uint64_t> values);

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int experts() const { return experts_; }
  [[nodiscard]] std::uint64_t operator()(rank_id source, expert_id expert) const {
    return values_[source.index() * static_cast<std::size_t>(experts_) + expert.index()];
  }
  [[nodiscard]] std::span<std::uint64_t const> values() const {
    return {values_.data(), values_.size()};
  }
  /// Tokens of each expert over all ranks: [experts].
  /// @throws argument_error if a sum is too large to be counted
  [[nodiscard]] expert_loads loads() const;

 private:
  int ranks_;
  int experts_;
  std::vector<std::uint64_t> values_;
};

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/routing/token_counts_inl.hpp"
#endif
