// SPDX-License-Identifier: Apache-2.0
/// The replication policy of EPLB, for experts whose owners stay.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/placement/load_share.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/solver/extra_replicas.hpp"
#include "fssdp/solver/placement_solver.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Fills the free slots of all ranks as expert_load_balancer does, with given owners.
///
/// In each node, the expert with the largest load per replica among those owned there gets one more
/// replica, until no slot is left or all ranks of the node hold it. Then replicas are assigned to
/// ranks: the largest load per replica first, to the least loaded rank of the node that has a free
/// slot and lacks the expert. (Ties: lower id. The loads of owned experts count.) A replica without
/// such a rank is dropped. Experts without load get no replica, unless no expert has any load.
///
/// Replicas stay in the node of the owner, so no parameters cross nodes: this is the hierarchical
/// policy of EPLB. Its global policy results from a topology without ranks: all on one node.
/// @cost O(E + R (log E + D)) comparisons for R replicas; a pure function
struct eplb_materialization {
  int spare_slots = 0;            ///< m: how many replicas a rank has memory for
  fssdp::topology topology = {};  ///< the nodes of the ranks; if empty: all on one node

  /// @param loads [experts], any scale
  /// @post every owner holds its experts, and no rank holds more than `spare_slots` replicas
  /// @throws argument_error if spare_slots is negative, or loads or ranks are not as many as in the
  ///         layout
  template <shard_layout Layout>
  [[nodiscard]] placement operator()(std::span<std::uint64_t const> loads,
                                     Layout const& layout) const {
    detail::require_loads("eplb_materialization", loads, layout.experts());
    detail::require(spare_slots >= 0, "eplb_materialization: spare_slots is ", spare_slots,
                    "; expected 0 or more");
    auto const topo = topology_or_one_node(topology, layout.ranks());
    auto where = placement{layout};
    auto owner_node = std::vector<std::vector<expert_id>>(static_cast<std::size_t>(topo.nodes()));
    auto const idle = std::ranges::all_of(loads, [](std::uint64_t load) { return load == 0; });
    for (auto const expert : first_n<expert_id>(layout.experts()))
      if (idle || loads[expert.index()] > 0)
        owner_node[topo.node(layout.owner(expert)).index()].push_back(expert);
    for (auto const node : first_n<node_id>(topo.nodes())) {
      auto of_node = expert_loads{};
      for (auto const expert : owner_node[node.index()])
        of_node.push_back(idle ? 1 : loads[expert.index()]);
      fill(where, layout, owner_node[node.index()], of_node, topo.ranks_on(node));
    }
    return where;
  }

 private:
  /// The replicas of one node.
  template <shard_layout Layout>
  void fill(placement& where, Layout const& layout, std::span<expert_id const> experts,
            expert_loads const& loads, std::span<rank_id const> ranks) const {
    auto const slots = std::min(static_cast<std::size_t>(spare_slots), experts.size());
    auto const extra =
        detail::extra_replicas(loads, ranks.size() * slots, static_cast<int>(ranks.size()));
    auto shares = std::vector<load_share>{};
    for (auto const load : loads) shares.push_back({.load = load});
    for (auto const place : extra) ++shares[place].replicas;

    auto borne = std::vector<load_share_sum>(static_cast<std::size_t>(layout.ranks()));
    auto room = std::vector<std::size_t>(borne.size(), slots);
    for (std::size_t place = 0; place < experts.size(); ++place)
      borne[layout.owner(experts[place]).index()].add(shares[place]);

    auto order = extra;  // by load per replica, then id: indices ascend with ids
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
      auto const by_share = shares[a] <=> shares[b];
      return by_share > 0 || (by_share == 0 && a < b);
    });
    for (auto const place : order) {
      auto best = std::optional<rank_id>{};
      for (auto const rank : ranks)
        if (room[rank.index()] > 0 && !where.holds(rank, experts[place]) &&
            (!best.has_value() || borne[rank.index()] < borne[best->index()]))
          best = rank;
      if (!best.has_value()) continue;
      where.add(experts[place], *best);
      borne[best->index()].add(shares[place]);
      --room[best->index()];
    }
  }
};

static_assert(placement_solver<eplb_materialization>);

}  // namespace fssdp
