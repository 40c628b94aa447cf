// SPDX-License-Identifier: Apache-2.0
/// Estimates the cost of a placement for one layer if tokens are routed by balanced_routing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/cost/layer_cost.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/routing/balanced_shares.hpp"
#include "fssdp/routing/token_demand.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Computes layer_cost with balanced_shares, for one placement after the other. It assumes that the
/// ranks of a node have equally many tokens for each expert, and that gathers are hidden.
///
/// Under these assumptions it is exactly layer_cost of balanced_routing. Otherwise compute and
/// ports between nodes are still exact, and ports inside nodes are not: differences between the
/// ranks of a node cause additional traffic there.
/// @cost that of balanced_shares, plus O(replicas), plus O(ranks of a node) for each expert that
///       has tokens to leave a node which hosts it; no allocation if it has seen an input as large
///       before
class estimated_cost {
 public:
  /// The seconds of computing, and of sending tokens.
  /// @throws argument_error if placement, topology and demand differ in sizes
  [[nodiscard]] double seconds(placement const& where, topology const& topo,
                               token_demand const& demand, layer_rates const& rates);
  /// The shares of the placement that was estimated last.
  [[nodiscard]] balanced_shares const& shares() const { return shares_; }

 private:
  /// Adds the traffic inside a node for an expert that it hosts. Tokens stay on their rank up to
  /// its share; then they fill the shares of other ranks of the node, by ascending source and
  /// receiver.
  void add(detail::expert_host const& host, std::uint64_t tokens, std::span<rank_id const> ranks);
  /// Distributes what the ranks of a node have left when `moving` tokens have filled its shares.
  void add_leaving(std::span<rank_id const> ranks, std::span<replica_share const> shares,
                   std::uint64_t own, std::uint64_t moving);
  [[nodiscard]] double busiest_port(topology const& topo) const;

  balanced_shares shares_;
  std::vector<std::uint64_t> inside_;     // [nodes]: per rank, of experts that the node hosts
  std::vector<std::uint64_t> spared_;     // [ranks]: of those, tokens that stay or leave the node
  std::vector<std::uint64_t> into_rank_;  // [ranks]: from other ranks of its node
};

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/cost/estimated_cost_inl.hpp"
#endif
