// SPDX-License-Identifier: Apache-2.0
/// The topology: which node each rank sits on, and how fast its ports are.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/index.hpp"

namespace fssdp {

/// What one rank can send or receive at once, full duplex.
struct port_bandwidth {
  double inside_bytes_per_second = 400e9;  ///< to ranks of the same node
  double between_bytes_per_second = 50e9;  ///< to ranks of other nodes
  friend bool operator==(port_bandwidth const&, port_bandwidth const&) = default;
};

/// Who has a network interface: every rank (nodes then have as many rails as ranks), or the ranks
/// of a node share one, which is as fast as the lowest of them says.
enum class network_interface { per_rank, per_node };

/// What a message costs beside its bytes. Latency passes while the ports are free for others.
struct message_cost {
  double inside_latency_seconds = 5e-6;    ///< to ranks of the same node
  double between_latency_seconds = 15e-6;  ///< to ranks of other nodes
  double port_seconds = 0.5e-6;            ///< for which it keeps both its ports busy
  friend bool operator==(message_cost const&, message_cost const&) = default;
};

namespace detail {

/// What a topology accepts: wide enough for every machine, and for tests that slow one down, and
/// narrow enough that no time that is computed from it is infinite.
inline constexpr double least_bandwidth = 1e-3;
inline constexpr double most_bandwidth = 1e18;
inline constexpr double most_message_seconds = 1e6;

}  // namespace detail

/// Ranks on nodes. A regular value; one without ranks means "all ranks on one node".
class topology {
 public:
  topology() = default;

  /// Rank r sits on node `node_of[r]`; nodes are numbered from 0 without gaps. `ports` has an entry
  /// per rank, or one for all.
  ///
  /// A template, so that of two constructors that could take `{.ranks = n}` a compiler that forgets
  /// the name of a single member prefers the other one.
  /// @throws argument_error on a gap in the nodes, a wrong number of ports, a bandwidth that is not
  ///         from 1e-3 to 1e18 bytes per second or a cost that is not from 0 to 1e6 seconds.
  template <std::same_as<node_id> Node = node_id>
  explicit topology(std::vector<Node> node_of, std::vector<port_bandwidth> ports = {{}},
                    network_interface network = network_interface::per_rank,
                    message_cost const& cost = {})
      : node_of_{std::move(node_of)}, ports_{std::move(ports)}, network_{network}, cost_{cost} {
    number_ranks();
  }

  struct shape {
    int nodes = 1;
    int ranks = 1;
    port_bandwidth ports = {};
    network_interface network = network_interface::per_rank;
    message_cost cost = {};
  };
  /// Consecutive ranks share a node, as evenly as it goes; the first nodes take what is left over.
  /// @throws argument_error unless 1 <= nodes <= ranks; as above.
  explicit topology(shape const& of);

  [[nodiscard]] int ranks() const { return static_cast<int>(node_of_.size()); }
  [[nodiscard]] int nodes() const { return static_cast<int>(ranks_on_.size()); }
  [[nodiscard]] node_id node(rank_id rank) const { return node_of_[rank.index()]; }
  /// The ranks of a node, ascending.
  [[nodiscard]] std::span<rank_id const> ranks_on(node_id node) const {
    return ranks_on_[node.index()];
  }
  [[nodiscard]] port_bandwidth const& port(rank_id rank) const { return ports_[rank.index()]; }
  [[nodiscard]] network_interface network() const { return network_; }
  [[nodiscard]] message_cost const& cost() const { return cost_; }
  /// Through whose interface a rank reaches other nodes: its own, or that of its node's first rank.
  [[nodiscard]] rank_id interface_of(rank_id rank) const {
    return network_ == network_interface::per_rank ? rank : ranks_on(node(rank)).front();
  }
  [[nodiscard]] bool same_node(rank_id a, rank_id b) const { return node(a) == node(b); }

  friend bool operator==(topology const&, topology const&) = default;

 private:
  static std::vector<node_id> spread(shape const& of);
  /// Makes what follows from the members, all of which it checks.
  void number_ranks();
  void check_speed() const;

  std::vector<node_id> node_of_;
  std::vector<port_bandwidth> ports_;
  network_interface network_ = network_interface::per_rank;
  message_cost cost_;
  std::vector<std::vector<rank_id>> ranks_on_;
};

/// What a node can send to other nodes, or receive from them, through all its interfaces.
[[nodiscard]] double node_bandwidth(topology const& topo, node_id node);

/// The given topology if it has ranks, else one node with all of them.
/// @throws argument_error if it has another number of ranks.
[[nodiscard]] topology topology_or_one_node(topology const& given, int ranks);

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/topology/topology_inl.hpp"
#endif
