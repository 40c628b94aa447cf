// SPDX-License-Identifier: Apache-2.0
/// The machine: which node each rank sits on, and how fast its ports are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

/// What one rank can send or receive at once, full duplex.
struct port_bandwidth {
  double inside_bytes_per_second = 400e9;  ///< to ranks of the same node
  double between_bytes_per_second = 50e9;  ///< to ranks of other nodes
  friend bool operator==(port_bandwidth const&, port_bandwidth const&) = default;
};

/// Ranks on nodes. A regular value; one without ranks means "all ranks on one node".
class topology {
 public:
  topology() = default;

  /// Rank r sits on node `node_of[r]`; nodes are numbered from 0 without gaps. `ports` has an entry
  /// per rank, or one for all.
  /// @throws argument_error on a gap in the nodes or a wrong number of ports.
  explicit topology(std::vector<node_id> node_of, std::vector<port_bandwidth> ports = {{}})
      : node_of_{std::move(node_of)}, ports_{std::move(ports)} {
    if (ports_.size() == 1) ports_.resize(node_of_.size(), ports_.front());
    detail::require(ports_.size() == node_of_.size(), "topology: ", ports_.size(), " ports for ",
                    node_of_.size(), " ranks; expected one port per rank");
    for (auto const node : node_of_) {
      detail::require(node.value() >= 0, "topology: node ", node, "; expected 0 or more");
      if (node.index() >= ranks_on_.size()) ranks_on_.resize(node.index() + 1);
    }
    for (auto const rank : first_n<rank_id>(ranks()))
      ranks_on_[node_of_[rank.index()].index()].push_back(rank);
    for (std::size_t node = 0; node < ranks_on_.size(); ++node)
      detail::require(!ranks_on_[node].empty(), "topology: node ", node, " of ", ranks_on_.size(),
                      " has no rank; expected nodes numbered without gaps");
  }

  struct shape {
    int nodes = 1;
    int ranks = 1;
    port_bandwidth ports = {};
  };
  /// Consecutive ranks share a node, as evenly as it goes; the first nodes take what is left over.
  /// @throws argument_error unless 1 <= nodes <= ranks.
  explicit topology(shape const& of) : topology{spread(of), {of.ports}} {}

  [[nodiscard]] int ranks() const { return static_cast<int>(node_of_.size()); }
  [[nodiscard]] int nodes() const { return static_cast<int>(ranks_on_.size()); }
  [[nodiscard]] node_id node(rank_id rank) const { return node_of_[rank.index()]; }
  /// The ranks of a node, ascending.
  [[nodiscard]] std::span<rank_id const> ranks_on(node_id node) const {
    return ranks_on_[node.index()];
  }
  [[nodiscard]] port_bandwidth const& port(rank_id rank) const { return ports_[rank.index()]; }
  [[nodiscard]] bool same_node(rank_id a, rank_id b) const { return node(a) == node(b); }

  friend bool operator==(topology const&, topology const&) = default;

 private:
  static std::vector<node_id> spread(shape const& of) {
    detail::require(of.nodes >= 1 && of.nodes <= of.ranks, "topology: ", of.nodes, " nodes for ",
                    of.ranks, " ranks; expected at least one rank per node");
    auto node_of = std::vector<node_id>{};
    for (int node = 0; node < of.nodes; ++node) {
      auto const here = of.ranks / of.nodes + (node < of.ranks % of.nodes ? 1 : 0);
      node_of.insert(node_of.end(), static_cast<std::size_t>(here), node_id{node});
    }
    return node_of;
  }

  std::vector<node_id> node_of_;
  std::vector<port_bandwidth> ports_;
  std::vector<std::vector<rank_id>> ranks_on_;
};

/// The given topology if it has ranks, else one node with all of them.
/// @throws argument_error if it has another number of ranks.
[[nodiscard]] inline topology topology_or_one_node(topology const& given, int ranks) {
  if (given.ranks() == 0) return topology{{.nodes = 1, .ranks = ranks}};
  detail::require(given.ranks() == ranks, "topology has ", given.ranks(), " ranks; expected ",
                  ranks);
  return given;
}

}  // namespace fssdp
