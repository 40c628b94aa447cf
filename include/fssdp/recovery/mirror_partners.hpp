// SPDX-License-Identifier: Apache-2.0
/// The rank that mirrors the shard of each rank, on another node.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// A partner for every rank, which keeps a mirror of its shard. A regular value, and a pure
/// function of its arguments: equal on all ranks.
///
/// Ranks form a ring, node by node, the largest node first. The mirror of a rank is as many
/// positions further on as the largest node has ranks. So the ranks of a node have their partners
/// on one or two other nodes, and if two nodes are lost together, few pairs of them are partners.
/// @post no rank is its own partner; no rank has a partner on its own node if there are two nodes
///       or more. Every rank keeps one mirror if no node has more than half of all ranks. If one
///       has, the other ranks share its mirrors evenly, and only few of its own ranks keep one
/// @post between two nodes that are partners, the rank that owns most has its mirror on the rank
///       that owns least
class mirror_partners {
 public:
  mirror_partners() = default;
  /// @param owned_bytes [ranks]: the size of the shard of each rank; empty: all are equal
  /// @throws argument_error unless there is a rank, and owned_bytes is empty or has one number per
  ///         rank
  /// @cost O(ranks log ranks) time
  explicit mirror_partners(topology const& topo, std::span<std::size_t const> owned_bytes = {})
      : partner_(static_cast<std::size_t>(topo.ranks())),
        mirrored_on_(static_cast<std::size_t>(topo.ranks())) {
    detail::require(topo.ranks() >= 1,
                    "mirror_partners: a topology of 0 ranks; expected 1 or more");
    detail::require(owned_bytes.empty() || owned_bytes.size() == partner_.size(),
                    "mirror_partners: bytes of ", owned_bytes.size(), " ranks; expected ",
                    topo.ranks());
    if (topo.ranks() == 1) return;
    auto const sources = ring(topo, owned_bytes, node_order::most_first);
    auto const targets = ring(topo, owned_bytes, node_order::least_first);
    auto const all = sources.size();
    auto const largest = largest_block(topo);
    auto const others = all - largest;
    for (std::size_t at = 0; at < all; ++at) {
      auto place = (at + largest) % all;
      if (largest > others) place = at < largest ? largest + at % others : at - largest;
      partner_[sources[at].index()] = targets[place];
    }
    for (auto const rank : first_n<rank_id>(ranks()))
      mirrored_on_[partner_[rank.index()]->index()].push_back(rank);
  }

  [[nodiscard]] int ranks() const { return static_cast<int>(partner_.size()); }
  /// The rank that keeps the mirror of a rank's shard; none if there is only one rank.
  [[nodiscard]] std::optional<rank_id> partner(rank_id rank) const {
    return partner_[rank.index()];
  }
  /// The ranks whose mirrors a rank keeps, ascending.
  [[nodiscard]] std::span<rank_id const> mirrored_on(rank_id rank) const {
    auto const& list = mirrored_on_[rank.index()];
    return {list.data(), list.size()};
  }

  friend bool operator==(mirror_partners const& a, mirror_partners const& b) {
    return a.partner_ == b.partner_;
  }

 private:
  enum class node_order { most_first, least_first };

  /// The number of ranks that must not be partners of one another: the size of the largest node, or
  /// 1 if there is only one node.
  [[nodiscard]] static std::size_t largest_block(topology const& topo) {
    if (topo.nodes() == 1) return 1;
    auto largest = std::size_t{0};
    for (auto const node : first_n<node_id>(topo.nodes()))
      largest = std::max(largest, topo.ranks_on(node).size());
    return largest;
  }
  /// The ranks node by node; within a node by the size of their shards.
  [[nodiscard]] static std::vector<rank_id> ring(topology const& topo,
                                                 std::span<std::size_t const> owned_bytes,
                                                 node_order order) {
    auto nodes = std::vector<node_id>{};
    for (auto const node : first_n<node_id>(topo.nodes())) nodes.push_back(node);
    std::ranges::stable_sort(nodes, std::greater{},
                             [&](node_id node) { return topo.ranks_on(node).size(); });
    auto all = std::vector<rank_id>{};
    for (auto const node : nodes) {
      auto here = std::vector<rank_id>(topo.ranks_on(node).begin(), topo.ranks_on(node).end());
      auto const bytes = [&](rank_id rank) { return owned_bytes[rank.index()]; };
      auto const is_first = [&](rank_id a, rank_id b) {
        return order == node_order::most_first ? bytes(a) > bytes(b) : bytes(a) < bytes(b);
      };
      // With a single node, both rings must be the same.
      if (!owned_bytes.empty() && topo.nodes() > 1) std::ranges::stable_sort(here, is_first);
      all.insert(all.end(), here.begin(), here.end());
    }
    return all;
  }

  std::vector<std::optional<rank_id>> partner_;    // [ranks]
  std::vector<std::vector<rank_id>> mirrored_on_;  // [ranks]
};

}  // namespace fssdp
