// SPDX-License-Identifier: Apache-2.0
/// The topology: the node of each rank, and the bandwidths and latencies of its ports.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/index.hpp"

namespace fssdp {

/// The bandwidth of one rank in each direction; it sends and receives at the same time.
struct port_bandwidth {
  double inside_bytes_per_second = 400e9;  ///< to ranks of the same node
  double between_bytes_per_second = 50e9;  ///< to ranks of other nodes
  friend bool operator==(port_bandwidth const&, port_bandwidth const&) = default;
};

/// Which ranks have a network interface: every rank (then a node has as many rails as ranks), or
/// all ranks of a node share one, with the bandwidth that is given for its lowest rank.
enum class network_interface { per_rank, per_node };

/// The cost of a message besides its bytes. During the latency, ports are free for other messages.
struct message_cost {
  double inside_latency_seconds = 5e-6;    ///< to ranks of the same node
  double between_latency_seconds = 15e-6;  ///< to ranks of other nodes
  double port_seconds = 0.5e-6;            ///< for which it occupies both its ports
  friend bool operator==(message_cost const&, message_cost const&) = default;
};

namespace detail {

/// The accepted ranges: wide enough for real hardware and for slowed-down tests, and narrow enough
/// that no time computed from them is infinite.
inline constexpr double least_bandwidth = 1e-3;
inline constexpr double most_bandwidth = 1e18;
inline constexpr double most_message_seconds = 1e6;

}  // namespace detail

/// Ranks on nodes. A regular value; one without ranks means "all ranks on one node".
class topology {
 public:
  topology() = default;

  /// Rank r is on node `node_of[r]`; nodes are numbered from 0 without gaps. `ports` has one entry
  /// for each rank, or one for all.
  ///
  /// A template only for overload resolution: `{.ranks = n}` could match both constructors for
  /// compilers that ignore the name of a single member, and they prefer the other one.
  /// @throws argument_error if node numbers have a gap, there are not as many ports, a bandwidth is
  ///         not from 1e-3 to 1e18 bytes per second, or a cost is not from 0 to 1e6 seconds
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
  /// Consecutive ranks share a node, as evenly as possible; the first nodes have one more if ranks
  /// are left over.
  /// @throws argument_error unless 1 <= nodes <= ranks, and as above
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
  /// The rank whose interface connects a rank to other nodes: itself, or the first rank of its
  /// node.
  [[nodiscard]] rank_id interface_of(rank_id rank) const {
    return network_ == network_interface::per_rank ? rank : ranks_on(node(rank)).front();
  }
  [[nodiscard]] bool same_node(rank_id a, rank_id b) const { return node(a) == node(b); }

  friend bool operator==(topology const&, topology const&) = default;

 private:
  static std::vector<node_id> spread(shape const& of);
  /// Checks the members, and computes what follows from them.
  void number_ranks();
  void check_speed() const;

  std::vector<node_id> node_of_;
  std::vector<port_bandwidth> ports_;
  network_interface network_ = network_interface::per_rank;
  message_cost cost_;
  std::vector<std::vector<rank_id>> ranks_on_;
};

/// The bandwidth of a node in each direction, through all its interfaces.
[[nodiscard]] double node_bandwidth(topology const& topo, node_id node);

/// The given topology if it has ranks, otherwise one node with all ranks.
/// @throws argument_error if it has a different number of ranks
[[nodiscard]] topology topology_or_one_node(topology const& given, int ranks);

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/topology/topology_inl.hpp"
#endif
