// SPDX-License-Identifier: Apache-2.0
/// How many tokens of each expert each node computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/routing/token_demand.hpp"
#include "fssdp/routing/water_fill.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp::detail {

/// A node that hosts an expert.
struct expert_host {
  expert_id expert;
  node_id node;
  std::uint64_t tokens = 0;  ///< of the expert, that the node computes
};

/// Tokens stay on their node if it hosts the expert. All others are sent to hosts such that the
/// node with most incoming tokens has few. After that, tokens move between hosts to balance the
/// load per rank, as far as the busiest port does not get busier. If a host computes T tokens of an
/// expert and its node has d of them, it receives T - d from other nodes, or sends d - T to them.
///
/// @cost O(N E + hosts log hosts) time; no allocation if it has seen an input as large before
class node_shares {
 public:
  void reset(int nodes, int experts);
  /// Adds a host; to be called by (expert, node) ascending. end_expert ends the list of an expert.
  void add_host(expert_id expert, node_id node);
  void end_expert();

  void balance(token_demand const& demand, topology const& topo);

  /// How many tokens of an expert can move from one host to another without making any port busier
  /// than the busiest one.
  [[nodiscard]] std::uint64_t room(expert_host const& from, expert_host const& to,
                                   token_demand const& demand) const;
  /// Moves up to `most` tokens of an expert from one host to another without making any port busier
  /// than the busiest one. Tokens from other nodes move first.
  /// @return the number of moved tokens
  std::uint64_t shift(expert_host& from, expert_host& to, std::uint64_t most,
                      token_demand const& demand);

  [[nodiscard]] std::span<expert_host> hosts() { return {hosts_.data(), hosts_.size()}; }
  [[nodiscard]] std::span<expert_host const> hosts() const {
    return {hosts_.data(), hosts_.size()};
  }
  [[nodiscard]] std::span<expert_host const> hosts(expert_id expert) const {
    return {hosts_.data() + first_[expert.index()], count(expert.index())};
  }
  /// Indices into hosts(), ascending until the caller sorts them.
  [[nodiscard]] std::span<std::uint32_t> hosts_on(node_id node) {
    return {by_node_.data() + node_first_[node.index()],
            node_first_[node.index() + 1] - node_first_[node.index()]};
  }
  /// [nodes]
  [[nodiscard]] std::span<std::uint64_t const> into() const { return {into_.data(), into_.size()}; }
  [[nodiscard]] std::span<std::uint64_t const> out() const { return {out_.data(), out_.size()}; }
  [[nodiscard]] std::span<std::uint64_t const> loads() const {
    return {load_.data(), load_.size()};
  }

 private:
  [[nodiscard]] std::size_t count(std::size_t expert) const {
    return first_[expert + 1] - first_[expert];
  }

  /// Tokens of other nodes that a host computes.
  [[nodiscard]] static std::uint64_t brought(expert_host const& host, token_demand const& demand);
  /// Tokens of a host's node that other nodes compute.
  [[nodiscard]] static std::uint64_t sent_away(expert_host const& host, token_demand const& demand);
  /// How many tokens the ports allow to move; no port is above limit_.
  [[nodiscard]] std::uint64_t can_leave(expert_host const& from, token_demand const& demand) const;
  [[nodiscard]] std::uint64_t can_enter(expert_host const& to, token_demand const& demand) const;

  /// Keeps tokens on their nodes where these host the expert; counts all others in stray_.
  void stay_with_owners(token_demand const& demand);

  /// Sends the others to hosts: experts with fewest hosts first, then those with most such tokens.
  void send_to_hosts();

  /// Moves tokens from nodes whose load per rank is above the mean to those with less, as far as
  /// the busiest port does not get busier.
  void even_out(token_demand const& demand, topology const& topo);

  /// Moves what is above a level from every node, as far as other hosts have room below it.
  void shift_down_to(std::uint64_t level, token_demand const& demand, topology const& topo);

  void index_hosts();

  std::size_t nodes_ = 0;
  std::size_t experts_ = 0;
  std::vector<std::uint32_t> first_;  // [experts + 1]: index into hosts_
  std::vector<expert_host> hosts_;
  std::vector<std::uint64_t> into_, out_, load_;  // [nodes]
  std::vector<std::uint64_t> stray_;              // [experts]
  std::uint64_t limit_ = 0;                       // of every port
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> cursor_;  // [experts]: the first host that may have room
  std::vector<std::uint32_t> by_node_, node_first_, next_;  // hosts, grouped by node
  std::vector<vessel> vessels_;
};

}  // namespace fssdp::detail

#ifndef FSSDP_COMPILED
#include "fssdp/routing/node_shares_inl.hpp"
#endif
