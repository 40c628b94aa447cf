// SPDX-License-Identifier: Apache-2.0
/// How many tokens of each expert every rank that holds it works on, so that none has much more to
/// do than any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/routing/node_shares.hpp"
#include "fssdp/routing/token_demand.hpp"
#include "fssdp/routing/water_fill.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// A rank that holds an expert, and the tokens of that expert that it works on.
struct replica_share {
  rank_id rank;
  std::uint64_t tokens = 0;
};

/// First between nodes, then between the ranks of each. Inside a node, experts are poured over
/// their replicas, those with fewest first; then again and again, each with the others where they
/// are: so the sum of squared loads falls towards its minimum, where no fullest rank could be
/// relieved inside its node. Last, fullest ranks give to ranks of other nodes.
///
/// @cost O(N E + R log R) time with R replicas; 16 times that if tokens pass through many ranks;
///       no allocation in `assign` once it has seen the largest input
class balanced_shares {
 public:
  balanced_shares() = default;
  /// @throws argument_error if the sizes differ
  balanced_shares(placement const& where, topology const& topo, token_demand const& demand);

  /// @param topo with ranks
  void assign(placement const& where, topology const& topo, token_demand const& demand);

  /// [ranks]: tokens that each works on
  [[nodiscard]] std::span<std::uint64_t const> loads() const {
    return {load_.data(), load_.size()};
  }
  /// [nodes]: tokens from other nodes
  [[nodiscard]] std::span<std::uint64_t const> into_node() const { return nodes_.into(); }
  /// [nodes]: tokens to other nodes
  [[nodiscard]] std::span<std::uint64_t const> out_of_node() const { return nodes_.out(); }
  /// The nodes that host an expert, ascending.
  [[nodiscard]] std::span<detail::expert_host const> hosts(expert_id expert) const {
    return nodes_.hosts(expert);
  }
  /// The ranks of a host, ascending.
  /// @param host one of hosts(expert), not a copy
  [[nodiscard]] std::span<replica_share const> replicas(detail::expert_host const& host) const {
    return replicas_of(static_cast<std::size_t>(&host - nodes_.hosts().data()));
  }

 private:
  /// Reads who holds what: hosts, and their ranks.
  void collect(placement const& where, topology const& topo);

  /// @return what the ranks of the fullest node have at least
  std::uint64_t pour(topology const& topo);

  /// Pours the experts of a node again, while its fullest rank is too full and tokens still move:
  /// where they pass through many ranks, the fullest is not relieved in every round.
  void level(std::span<rank_id const> ranks, std::span<std::uint32_t const> list,
             std::uint64_t target);

  /// Where a node's ranks cannot be equally full, the fullest gives to ranks of other nodes that
  /// hold what it holds, as far as ports have room.
  void relieve(topology const& topo, token_demand const& demand, std::uint64_t target);
  bool relieve(rank_id from, topology const& topo, token_demand const& demand);
  void index_replicas();

  /// Pours the tokens of a host over its ranks, where none of them count in loads.
  /// @return how many went to another rank than before
  std::uint64_t pour(std::uint32_t host);

  [[nodiscard]] std::span<replica_share const> replicas_of(std::size_t host) const {
    return {replicas_.data() + first_[host], first_[host + 1] - first_[host]};
  }

  static constexpr auto most_rounds = 16;
  static constexpr auto most_moves = std::size_t{64};

  detail::node_shares nodes_;
  std::vector<std::uint32_t> first_;  // [hosts + 1]: into replicas_
  std::vector<replica_share> replicas_;
  std::vector<std::uint64_t> load_;                                   // [ranks]
  std::vector<std::uint32_t> host_of_, by_rank_, rank_first_, next_;  // of replicas
  std::vector<detail::vessel> vessels_;
};

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/routing/balanced_shares_inl.hpp"
#endif
