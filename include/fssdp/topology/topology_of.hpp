// SPDX-License-Identifier: Apache-2.0
/// The topology of a subset of ranks, such as those that are left when others are lost.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// The topology of some ranks, renumbered in their order. They keep their nodes and ports; nodes
/// without ranks are removed.
/// @param ranks ascending
/// @throws argument_error if there are none, one does not exist, or they do not ascend
[[nodiscard]] inline topology topology_of(topology const& all, std::span<rank_id const> ranks) {
  detail::require(!ranks.empty(), "topology_of: no ranks; expected 1 or more");
  auto nodes = std::vector<node_id>{};  // nodes with ranks
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    detail::require(ranks[i].value() >= 0 && ranks[i].value() < all.ranks(), "topology_of: rank ",
                    ranks[i], "; expected 0 to ", all.ranks() - 1);
    detail::require(i == 0 || ranks[i - 1] < ranks[i], "topology_of: rank ", ranks[i], " at index ",
                    i, "; expected ascending ranks");
    nodes.push_back(all.node(ranks[i]));
  }
  std::ranges::sort(nodes);
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  auto node_of = std::vector<node_id>{};
  auto ports = std::vector<port_bandwidth>{};
  for (auto const rank : ranks) {
    node_of.emplace_back(std::ranges::lower_bound(nodes, all.node(rank)) - nodes.begin());
    ports.push_back(all.port(rank));
  }
  return topology{std::move(node_of), std::move(ports), all.network(), all.cost()};
}

}  // namespace fssdp
