// SPDX-License-Identifier: Apache-2.0
/// The chunks that a placement forces through the ports of a topology, for any plan.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "fssdp/core/chunk.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp::detail {

/// The chunks that must pass each port; their rows where experts differ in size.
struct gather_volume {
  using amount = std::int64_t;
  static constexpr auto nothing = std::numeric_limits<int>::max();

  /// The chunks that one rank owns and other ranks get. `nothing` is the minimum over no chunks.
  struct owned_chunks {
    amount all = 0;
    amount crossing = 0;         ///< chunks that other nodes get
    amount staying = 0;          ///< chunks that only other ranks of its node get
    int fewest_ranks = nothing;  ///< the smallest number of ranks that get one of them
    int fewest_nodes = nothing;  ///< of other nodes that get one of the crossing chunks
    int fewest_there = nothing;  ///< of ranks that get a crossing chunk on another node
  };

  std::vector<amount> into_rank;         ///< [ranks]: chunks that it gets
  std::vector<amount> into_rank_remote;  ///< [ranks]: of those, owned on other nodes
  std::vector<owned_chunks> out_of_rank;
  std::vector<amount> into_node;    ///< [nodes]
  std::vector<amount> out_of_node;  ///< [nodes]: owned there, and other nodes get them
  std::vector<int> fewest_on;       ///< [nodes]: the fewest ranks that get one of those that enter
  amount between_nodes = 0;

  explicit gather_volume(transfer_plan const& plan)
      : into_rank(static_cast<std::size_t>(plan.ranks())),
        into_rank_remote(into_rank.size()),
        out_of_rank(into_rank.size()),
        into_node(static_cast<std::size_t>(plan.topology().nodes())),
        out_of_node(into_node.size()),
        fewest_on(into_node.size(), nothing) {
    auto ranks_on = std::vector<int>(into_node.size());
    for (auto const chunk : chunk_range{0, plan.experts() * plan.slices(), plan.slices()}) {
      std::ranges::fill(ranks_on, 0);
      count(plan, chunk, ranks_on);
    }
  }

 private:
  /// @param ranks_on [nodes]: zeros
  void count(transfer_plan const& plan, chunk_id chunk, std::vector<int>& ranks_on) {
    auto const& topo = plan.topology();
    auto const owner = plan.owner(chunk);
    auto const size = static_cast<amount>(plan.rows(chunk.expert));
    auto const owner_node = topo.node(owner);
    auto ranks = 0;
    for (auto const rank : plan.where().holders(chunk.expert)) {
      if (rank == owner) continue;
      ++ranks;
      ++ranks_on[topo.node(rank).index()];
      into_rank[rank.index()] += size;
      if (topo.node(rank) != owner_node) into_rank_remote[rank.index()] += size;
    }
    if (ranks == 0) return;
    auto& owned = out_of_rank[owner.index()];
    owned.all += size;
    owned.fewest_ranks = std::min(owned.fewest_ranks, ranks);
    if (ranks_on[owner_node.index()] != 0) owned.staying += size;
    auto nodes = 0;
    for (auto const node : first_n<node_id>(topo.nodes())) {
      auto const there = ranks_on[node.index()];
      if (there == 0 || node == owner_node) continue;
      ++nodes;
      into_node[node.index()] += size;
      fewest_on[node.index()] = std::min(fewest_on[node.index()], there);
      owned.fewest_there = std::min(owned.fewest_there, there);
    }
    between_nodes += nodes * size;
    if (nodes == 0) return;
    owned.crossing += size;
    owned.fewest_nodes = std::min(owned.fewest_nodes, nodes);
    out_of_node[owner_node.index()] += size;
  }
};

}  // namespace fssdp::detail
