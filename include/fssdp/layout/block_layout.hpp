// SPDX-License-Identifier: Apache-2.0
/// Consecutive experts share an owner.
#pragma once

#include <algorithm>

#include "fssdp/core/error.hpp"
#include "fssdp/layout/shard_layout.hpp"

namespace fssdp {

/// Rank r owns the r-th block of experts. Blocks are as equal as they can be; the first
/// experts % ranks of them have one more. With fewer experts than ranks the last ranks own nothing.
class block_layout {
 public:
  struct shape {
    int experts = 1;
    int ranks = 1;
  };

  block_layout() = default;
  /// @throws argument_error unless there is at least one expert and one rank.
  explicit block_layout(shape const& of) : experts_{of.experts}, ranks_{of.ranks} {
    detail::require(of.experts >= 1, "block_layout: ", of.experts, " experts; expected 1 or more");
    detail::require(of.ranks >= 1, "block_layout: ", of.ranks, " ranks; expected 1 or more");
  }

  [[nodiscard]] int experts() const { return experts_; }
  [[nodiscard]] int ranks() const { return ranks_; }

  [[nodiscard]] rank_id owner(expert_id expert) const {
    auto const long_blocks = experts_ % ranks_ * (size() + 1);  // experts in the longer blocks
    auto const e = expert.value();
    return rank_id{e < long_blocks ? e / (size() + 1)
                                   : experts_ % ranks_ + (e - long_blocks) / size()};
  }
  [[nodiscard]] int slot(expert_id expert) const {
    return expert.value() - first(owner(expert).value());
  }
  /// The experts of a rank in slot order, ascending.
  [[nodiscard]] index_range<expert_id> owned(rank_id rank) const {
    return {expert_id{first(rank.value())}, expert_id{first(rank.value() + 1)}};
  }

  friend bool operator==(block_layout const&, block_layout const&) = default;

 private:
  [[nodiscard]] int size() const { return experts_ / ranks_; }
  [[nodiscard]] int first(int rank) const {
    return rank * size() + std::min(rank, experts_ % ranks_);
  }

  int experts_ = 1;
  int ranks_ = 1;
};

static_assert(shard_layout<block_layout>);

}  // namespace fssdp
