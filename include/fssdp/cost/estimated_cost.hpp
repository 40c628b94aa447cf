// SPDX-License-Identifier: Apache-2.0
/// What a placement would cost an iteration of one layer if its tokens were routed balanced.
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

/// Judges placements in turn, by layer_cost of balanced_shares. The ranks of a node are taken to
/// have equally many tokens of each expert; gathers to be hidden.
///
/// Where that is so, it is exactly layer_cost of balanced_routing. Elsewhere compute and ports
/// between nodes still are, tokens inside nodes are not: whatever differs between ranks goes
/// through NVLink.
/// @cost that of balanced_shares, and O(replicas), and O(ranks of a node) for each expert that has
///       tokens to leave a node which hosts it; no allocation once it has seen the largest input
class estimated_cost {
 public:
  /// Seconds of computing and of tokens on their way.
  /// @throws argument_error if placement, topology and demand differ in sizes
  [[nodiscard]] double seconds(placement const& where, topology const& topo,
                               token_demand const& demand, layer_rates const& rates);
  /// Of the placement that was judged last.
  [[nodiscard]] balanced_shares const& shares() const { return shares_; }

 private:
  /// Tokens that a node has of an expert which it hosts stay on their rank as far as its share
  /// goes; then they fill the shares of other ranks of the node, from and to ranks ascending.
  void add(detail::expert_host const& host, std::uint64_t tokens, std::span<rank_id const> ranks);
  /// What is left to ranks of a node when `moving` tokens have filled the shares there.
  void add_leaving(std::span<rank_id const> ranks, std::span<replica_share const> shares,
                   std::uint64_t own, std::uint64_t moving);
  [[nodiscard]] double busiest_port(topology const& topo) const;

  balanced_shares shares_;
  std::vector<std::uint64_t> inside_;     // [nodes]: of a rank, of experts that the node hosts
  std::vector<std::uint64_t> spared_;     // [ranks]: of those, that stay or leave the node
  std::vector<std::uint64_t> into_rank_;  // [ranks]: from other ranks of its node
};

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/cost/estimated_cost_inl.hpp"
#endif
