// SPDX-License-Identifier: Apache-2.0
/// How many tokens of each expert each rank computes, such that the fullest rank has few.
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

/// A rank that holds an expert, and the number of the expert's tokens that it computes.
struct replica_share {
  rank_id rank;
  std::uint64_t tokens = 0;
};

/// Divides tokens between nodes first, then between the ranks of each node. Inside a node, the
/// tokens of each expert are distributed to its replicas like water to the lowest level, experts
/// with fewest replicas first; this is repeated, given the loads of all others, until the fullest
/// rank cannot be relieved inside its node. Finally, the fullest ranks give tokens to ranks of
/// other nodes.
///
/// @cost O(N E + R log R) time with R replicas; 16 times that if tokens have to pass along chains
///       of ranks; no allocation in `assign` if it has seen an input as large before
class balanced_shares {
 public:
  balanced_shares() = default;
  /// @throws argument_error if the sizes differ
  balanced_shares(placement const& where, topology const& topo, token_demand const& demand);

  /// @param topo with ranks
  void assign(placement const& where, topology const& topo, token_demand const& demand);

  /// [ranks]: tokens that each rank computes
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
  /// The ranks of a host that hold the expert, ascending.
  /// @param host one of hosts(expert), not a copy
  [[nodiscard]] std::span<replica_share const> replicas(detail::expert_host const& host) const {
    return replicas_of(static_cast<std::size_t>(&host - nodes_.hosts().data()));
  }

 private:
  /// Lists the hosts of all experts and their ranks.
  void collect(placement const& where, topology const& topo);

  /// @return a lower bound of the load of the fullest rank
  std::uint64_t pour(topology const& topo);

  /// Distributes the experts of a node again while its fullest rank is too full and tokens still
  /// move: where tokens pass along chains of ranks, this takes several passes.
  void level(std::span<rank_id const> ranks, std::span<std::uint32_t const> list,
             std::uint64_t target);

  /// If the ranks of a node cannot be equally full, the fullest gives tokens to ranks of other
  /// nodes that hold the same experts, as far as ports allow.
  void relieve(topology const& topo, token_demand const& demand, std::uint64_t target);
  bool relieve(rank_id from, topology const& topo, token_demand const& demand);
  void index_replicas();

  /// Distributes the tokens of a host to its ranks; before, they are not counted in the loads.
  /// @return the number of tokens whose rank has changed
  std::uint64_t pour(std::uint32_t host);

  [[nodiscard]] std::span<replica_share const> replicas_of(std::size_t host) const {
    return {replicas_.data() + first_[host], first_[host + 1] - first_[host]};
  }

  static constexpr auto most_rounds = 16;
  static constexpr auto most_moves = std::size_t{64};

  detail::node_shares nodes_;
  std::vector<std::uint32_t> first_;  // [hosts + 1]: index into replicas_
  std::vector<replica_share> replicas_;
  std::vector<std::uint64_t> load_;                                   // [ranks]
  std::vector<std::uint32_t> host_of_, by_rank_, rank_first_, next_;  // of replicas
  std::vector<detail::vessel> vessels_;
};

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/routing/balanced_shares_inl.hpp"
#endif
