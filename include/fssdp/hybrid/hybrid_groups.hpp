// SPDX-License-Identifier: Apache-2.0
/// Two levels of ranks: groups that shard, and counterparts that replicate between groups.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Groups of equally many ranks. A group shards all experts over its ranks. The ranks at the same
/// position of all groups, which are counterparts, own the same chunks; so each sends to its
/// counterparts only. A regular value.
///
/// In terms of PyTorch's 2-D meshes: the position is the coordinate in the "shard" dimension, the
/// group that in the "replicate" dimension. (DeToNATION, hybrid sharding groups)
class hybrid_groups {
 public:
  struct shape {
    int groups = 1;
    int ranks_per_group = 1;
  };

  hybrid_groups() : hybrid_groups{shape{}} {}
  /// Consecutive ranks form a group.
  /// @throws argument_error unless there is at least one group and one rank, and all ranks fit into
  ///         an int
  explicit hybrid_groups(shape const& of) : ranks_per_group_{of.ranks_per_group} {
    detail::require(of.groups >= 1 && of.ranks_per_group >= 1 &&
                        of.groups <= std::numeric_limits<int>::max() / of.ranks_per_group,
                    "hybrid_groups: ", of.groups, " groups of ", of.ranks_per_group,
                    " ranks; expected 1 or more, and a number of ranks that fits an int");
    for (auto const rank : first_n<rank_id>(of.groups * of.ranks_per_group)) add(rank);
  }
  /// Every node is a group.
  /// @throws argument_error unless all nodes have equally many ranks
  explicit hybrid_groups(topology const& topo)
      : ranks_per_group_{static_cast<int>(topo.ranks_on(node_id{0}).size())} {
    place_of_.resize(static_cast<std::size_t>(topo.ranks()));
    for (auto const node : first_n<node_id>(topo.nodes())) {
      auto const here = topo.ranks_on(node);
      detail::require(static_cast<int>(here.size()) == ranks_per_group_,
                      "hybrid_groups: ", here.size(), " ranks on node ", node, "; expected ",
                      ranks_per_group_, " as on node 0");
      for (auto const rank : here) {
        place_of_[rank.index()] = static_cast<int>(ranks_.size());
        ranks_.push_back(rank);
      }
    }
  }

  [[nodiscard]] int groups() const { return ranks() / ranks_per_group_; }
  [[nodiscard]] int ranks_per_group() const { return ranks_per_group_; }
  [[nodiscard]] int ranks() const { return static_cast<int>(ranks_.size()); }

  [[nodiscard]] group_id group(rank_id rank) const {
    return group_id{place_of_[rank.index()] / ranks_per_group_};
  }
  /// The rank of a rank within its group.
  [[nodiscard]] rank_id rank_in_group(rank_id rank) const {
    return rank_id{place_of_[rank.index()] % ranks_per_group_};
  }
  /// The rank at a position of a group.
  [[nodiscard]] rank_id rank(group_id group, rank_id in_group) const {
    return ranks_[group.index() * static_cast<std::size_t>(ranks_per_group_) + in_group.index()];
  }

  friend bool operator==(hybrid_groups const& a, hybrid_groups const& b) {
    return std::tie(a.ranks_per_group_, a.ranks_) == std::tie(b.ranks_per_group_, b.ranks_);
  }

 private:
  void add(rank_id rank) {
    place_of_.push_back(static_cast<int>(ranks_.size()));
    ranks_.push_back(rank);
  }

  int ranks_per_group_;
  std::vector<rank_id> ranks_;  // [groups, ranks per group]
  std::vector<int> place_of_;   // [ranks]: the index of each in ranks_
};

/// The two communicators of a rank: with its group, and with its counterparts in all groups.
template <class Comm>
struct hybrid_communicators {
  Comm inside;   ///< ranks by position
  Comm between;  ///< ranks by group
};

/// Splits a communicator into groups.
/// @pre every rank calls with equal groups
/// @cost that of two comm.split
/// @throws argument_error if the groups have a different number of ranks; transport errors
template <splittable_communicator Comm>
[[nodiscard]] auto split(Comm& comm, hybrid_groups const& groups) {
  detail::require(groups.ranks() == comm.size(), "split: the groups have ", groups.ranks(),
                  " ranks; expected ", comm.size());
  auto const group = groups.group(comm.rank()).value();
  auto const position = groups.rank_in_group(comm.rank()).value();
  auto inside = comm.split(group, position);
  auto between = comm.split(position, group);
  return hybrid_communicators<typename decltype(inside)::value_type>{std::move(*inside),
                                                                     std::move(*between)};
}

}  // namespace fssdp
