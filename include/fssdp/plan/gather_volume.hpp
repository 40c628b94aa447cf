// SPDX-License-Identifier: Apache-2.0
/// What a placement forces through the ports of a machine, whatever the plan.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "fssdp/cluster/topology.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// A chunk that moves.
struct chunk_spread {
  rank_id owner;
  std::vector<int> ranks_on;  ///< [nodes]: that get it
  int ranks = 0;              ///< that get it, all together
  int nodes = 0;              ///< other than the owner's that get it
};

/// Chunks that ports cannot avoid.
struct gather_volume {
  std::vector<chunk_spread> chunks;
  std::vector<int> into_rank;          ///< [ranks]: it is to get
  std::vector<int> into_rank_foreign;  ///< [ranks]: of those, owned on other nodes
  std::vector<int> out_of_rank;        ///< [ranks]: it owns and others get
  std::vector<int> into_node;          ///< [nodes]
  std::vector<int> out_of_node;        ///< [nodes]: owned there, and other nodes get
  int between_nodes = 0;

  explicit gather_volume(transfer_plan const& plan)
      : into_rank(static_cast<std::size_t>(plan.ranks())),
        into_rank_foreign(into_rank.size()),
        out_of_rank(into_rank.size()),
        into_node(static_cast<std::size_t>(plan.cluster().nodes())),
        out_of_node(into_node.size()) {
    auto const& machine = plan.cluster();
    for (auto const chunk : chunk_range{0, plan.experts() * plan.slices(), plan.slices()}) {
      auto const owner = plan.owner(chunk);
      auto const home = machine.node(owner);
      auto spread = chunk_spread{owner, std::vector<int>(into_node.size())};
      for (auto const rank : plan.where().holders(chunk.expert)) {
        if (rank == owner) continue;
        auto const node = machine.node(rank);
        ++spread.ranks;
        ++into_rank[rank.index()];
        if (node != home) ++into_rank_foreign[rank.index()];
        if (spread.ranks_on[node.index()]++ == 0 && node != home) {
          ++spread.nodes;
          ++into_node[node.index()];
          ++between_nodes;
        }
      }
      if (spread.ranks == 0) continue;
      ++out_of_rank[owner.index()];
      if (spread.nodes != 0) ++out_of_node[home.index()];
      chunks.push_back(std::move(spread));
    }
  }
};

}  // namespace fssdp::detail
