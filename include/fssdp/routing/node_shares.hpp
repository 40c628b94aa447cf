// SPDX-License-Identifier: Apache-2.0
/// How many tokens of each expert every node works on, of those that host it.
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
  std::uint64_t tokens = 0;  ///< of the expert, that it works on
};

/// Tokens stay on their node if it hosts the expert; all others go to hosts, so that no node takes
/// in much more than any. Then what does not fill the busiest port any further evens out how many
/// tokens a device has to work on. An expert's host works on T tokens, its node has d of them: it
/// takes in T - d from other nodes, or sends d - T to them.
///
/// @cost O(N E + hosts log hosts) time; no allocation once it has seen the largest input
class node_shares {
 public:
  void reset(int nodes, int experts);
  /// Hosts are named by (expert, node) ascending; end_expert ends each expert's.
  void add_host(expert_id expert, node_id node);
  void end_expert();

  void balance(token_demand const& demand, topology const& topo);

  /// How many tokens can move from one host of an expert to another, so that no port gets busier
  /// than the busiest was.
  [[nodiscard]] std::uint64_t room(expert_host const& from, expert_host const& to,
                                   token_demand const& demand) const;
  /// Moves up to `most` tokens of an expert from one host to another, so that no port gets busier
  /// than the busiest was. Tokens that came from elsewhere move first.
  /// @return how many
  std::uint64_t shift(expert_host& from, expert_host& to, std::uint64_t most,
                      token_demand const& demand);

  [[nodiscard]] std::span<expert_host> hosts() { return {hosts_.data(), hosts_.size()}; }
  [[nodiscard]] std::span<expert_host const> hosts() const {
    return {hosts_.data(), hosts_.size()};
  }
  [[nodiscard]] std::span<expert_host const> hosts(expert_id expert) const {
    return {hosts_.data() + first_[expert.index()], count(expert.index())};
  }
  /// Positions in hosts(), ascending until the caller sorts them.
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

  /// Tokens of other nodes that a host works on.
  [[nodiscard]] static std::uint64_t brought(expert_host const& host, token_demand const& demand);
  /// Tokens of a host's node that other nodes work on.
  [[nodiscard]] static std::uint64_t sent_away(expert_host const& host, token_demand const& demand);
  /// What a port has left, and what moves without it: no port is above limit_.
  [[nodiscard]] std::uint64_t can_leave(expert_host const& from, token_demand const& demand) const;
  [[nodiscard]] std::uint64_t can_enter(expert_host const& to, token_demand const& demand) const;

  /// Everything that can stay stays; what cannot is left in stray_.
  void stay_with_owners(token_demand const& demand);

  /// The experts with fewest hosts first, then those with most tokens on the way.
  void send_to_hosts();

  /// From nodes whose devices have more to do than the average to those that have less, or to those
  /// that have not much more; as long as no port gets busier than the busiest is.
  void even_out(token_demand const& demand, topology const& topo);

  /// Takes what is above a level from every node, as far as other hosts have room below it.
  void shift_down_to(std::uint64_t level, token_demand const& demand, topology const& topo);

  void index_hosts();

  std::size_t nodes_ = 0;
  std::size_t experts_ = 0;
  std::vector<std::uint32_t> first_;  // [experts + 1]: into hosts_
  std::vector<expert_host> hosts_;
  std::vector<std::uint64_t> into_, out_, load_;  // [nodes]
  std::vector<std::uint64_t> stray_;              // [experts]
  std::uint64_t limit_ = 0;                       // of every port
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> cursor_;  // [experts]: the first host that may have room
  std::vector<std::uint32_t> by_node_, node_first_, next_;  // hosts, grouped
  std::vector<vessel> vessels_;
};

}  // namespace fssdp::detail

#ifndef FSSDP_COMPILED
#include "fssdp/routing/node_shares_inl.hpp"
#endif
