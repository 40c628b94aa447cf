// SPDX-License-Identifier: Apache-2.0
/// How many tokens of every node are for every expert.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// A matrix [nodes, experts], in any unit; the sum of all entries is below 2^48.
class token_demand {
 public:
  token_demand() = default;
  token_demand(int nodes, int experts);
  /// The sums of the counts of the ranks of each node.
  /// @throws argument_error if the topology has ranks, but not as many as the counts
  explicit token_demand(token_counts const& counts, topology const& given = {});

  /// Sets the size and all entries to zero; reuses memory.
  void reset(int nodes, int experts);
  [[nodiscard]] int nodes() const { return nodes_; }
  [[nodiscard]] int experts() const { return experts_; }
  /// [experts]
  [[nodiscard]] std::span<std::uint64_t> of(node_id node) {
    return {values_.data() + start(node), static_cast<std::size_t>(experts_)};
  }
  [[nodiscard]] std::span<std::uint64_t const> of(node_id node) const {
    return {values_.data() + start(node), static_cast<std::size_t>(experts_)};
  }
  [[nodiscard]] std::uint64_t operator()(node_id node, expert_id expert) const {
    return values_[start(node) + expert.index()];
  }

 private:
  [[nodiscard]] std::size_t start(node_id node) const {
    return node.index() * static_cast<std::size_t>(experts_);
  }

  int nodes_ = 0;
  int experts_ = 0;
  std::vector<std::uint64_t> values_;
};

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/routing/token_demand_inl.hpp"
#endif
