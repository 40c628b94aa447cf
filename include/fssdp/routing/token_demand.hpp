// SPDX-License-Identifier: Apache-2.0
/// How many tokens of every node go to every expert.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// A matrix [nodes, experts]; in any unit, but all together below 2^48.
class token_demand {
 public:
  token_demand() = default;
  token_demand(int nodes, int experts) { reset(nodes, experts); }
  /// What the ranks of a node have counted.
  /// @throws argument_error if the topology has ranks, but not as many as there are counts of
  explicit token_demand(token_counts const& counts, topology const& given = {}) {
    auto const topo = topology_or_one_node(given, counts.ranks());
    reset(topo.nodes(), counts.experts());
    for (auto const rank : first_n<rank_id>(topo.ranks())) {
      auto const row = of(topo.node(rank));
      auto const counted = counts.values().subspan(rank.index() * row.size(), row.size());
      for (std::size_t e = 0; e < row.size(); ++e) row[e] += counted[e];
    }
  }

  /// All zero; memory is kept.
  void reset(int nodes, int experts) {
    nodes_ = nodes;
    experts_ = experts;
    values_.assign(static_cast<std::size_t>(nodes) * static_cast<std::size_t>(experts), 0);
  }
  [[nodiscard]] int nodes() const { return nodes_; }
  [[nodiscard]] int experts() const { return experts_; }
  /// [experts]
  [[nodiscard]] std::span<std::uint64_t> of(node_id node) {
    return std::span{values_}.subspan(start(node), static_cast<std::size_t>(experts_));
  }
  [[nodiscard]] std::span<std::uint64_t const> of(node_id node) const {
    return std::span{values_}.subspan(start(node), static_cast<std::size_t>(experts_));
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
