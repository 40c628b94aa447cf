// SPDX-License-Identifier: Apache-2.0
/// Replicas where they are needed most, within the limits of every port.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/routing/node_shares.hpp"
#include "fssdp/routing/token_demand.hpp"
#include "fssdp/solver/expected_demand.hpp"
#include "fssdp/solver/host_choice.hpp"
#include "fssdp/solver/materialization_budget.hpp"
#include "fssdp/solver/placement_solver.hpp"
#include "fssdp/solver/replica_packing.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Every node takes in the experts that it needs most, as many as its ports and slots allow. Inside
/// a node, where copies are nearly free, experts get as many replicas as an even load requires.
/// Route with balanced_routing.
///
/// Algorithm 1 limits how many experts have replicas, and gives replicas of all of them to every
/// rank; what a network really limits is how many experts enter and leave each node. (Not from the
/// paper.)
struct needs_based_materialization {
  /// Required, as only the caller knows memory and ports: see hidden_budget and paying_budget; {}
  /// allows no replicas.
  materialization_budget budget = detail::no_budget;
  fssdp::topology topology = {};  ///< the nodes of the ranks; if empty: all on one node

  /// Memory that can be kept between calls, so that they do not allocate.
  class workspace {
   public:
    workspace() = default;

   private:
    friend needs_based_materialization;
    std::optional<fssdp::topology> one_node;
    token_demand demand;
    std::vector<node_id> owner_node;   // [experts]
    std::vector<std::size_t> most_in;  // [nodes]
    std::vector<int> owned;            // [ranks]
    std::vector<std::uint32_t> order;
    detail::host_choice choice;
    detail::node_shares shares;
    detail::replica_packing packing;
  };

  /// @param loads [experts], any scale
  /// @post every owner holds its experts; the budget allows its port_loads
  /// @cost O(N E + moves (D / N) (E / D + m)^2) time, with at most one move per slot and rank;
  ///       memory for E / D + m experts on every rank
  /// @throws argument_error without a budget, if it is negative, or if loads or ranks are not as
  ///         many as in the layout
  template <shard_layout Layout>
  [[nodiscard]] placement operator()(std::span<std::uint64_t const> loads,
                                     Layout const& layout) const {
    auto where = placement{};
    auto memory = workspace{};
    solve_into(loads, layout, where, memory);
    return where;
  }

  /// The same without an allocation, if `where` and `memory` have seen an input as large before.
  template <shard_layout Layout>
  void solve_into(std::span<std::uint64_t const> loads, Layout const& layout, placement& where,
                  workspace& memory) const {
    detail::require_loads("needs_based_materialization", loads, layout.experts());
    auto const& topo = check(layout.ranks(), memory);
    detail::expect_demand(loads, topo, memory.demand);
    solve(layout, topo, memory.demand, where, memory);
  }

  /// The same where the demand of each node is known, in any unit: only proportions matter.
  /// @throws argument_error as above, and if nodes or experts are not as many
  template <shard_layout Layout>
  void solve_into(token_demand const& demand, Layout const& layout, placement& where,
                  workspace& memory) const {
    auto const& topo = check(layout.ranks(), memory);
    detail::require(demand.experts() == layout.experts() && demand.nodes() == topo.nodes(),
                    "needs_based_materialization: demand of ", demand.nodes(), " nodes for ",
                    demand.experts(), " experts; expected ", topo.nodes(), " and ",
                    layout.experts());
    solve(layout, topo, demand, where, memory);
  }

 private:
  fssdp::topology const& check(int ranks, workspace& memory) const {
    detail::require_budget("needs_based_materialization", budget);
    if (topology.ranks() == ranks) return topology;
    if (!memory.one_node.has_value() || memory.one_node->ranks() != ranks || topology.ranks() != 0)
      memory.one_node = topology_or_one_node(topology, ranks);
    return *memory.one_node;
  }

  template <shard_layout Layout>
  void solve(Layout const& layout, fssdp::topology const& topo, token_demand const& demand,
             placement& where, workspace& memory) const {
    memory.owner_node.clear();
    memory.owned.assign(static_cast<std::size_t>(topo.ranks()), 0);
    for (auto const expert : first_n<expert_id>(layout.experts())) {
      memory.owner_node.push_back(topo.node(layout.owner(expert)));
      ++memory.owned[layout.owner(expert).index()];
    }
    auto const slots = std::min(budget.spare_slots, layout.experts());
    memory.most_in.clear();
    for (auto const node : first_n<node_id>(topo.nodes()))
      memory.most_in.push_back(
          std::min(static_cast<std::size_t>(budget.experts_in),
                   topo.ranks_on(node).size() * static_cast<std::size_t>(slots)));
    memory.choice.choose(demand, memory.owner_node, memory.most_in, budget.experts_out);
    host(topo, demand, memory);
    pack(layout, topo, slots, memory);
    where.reset(layout);
    for (auto const rank : first_n<rank_id>(topo.ranks()))
      for (auto const& part : memory.packing.of(rank))
        if (!part.owned) where.add(part.expert, rank);
  }

  /// Chooses the experts that each node hosts, and how many tokens it then computes.
  static void host(fssdp::topology const& topo, token_demand const& demand, workspace& memory) {
    auto const experts = demand.experts();
    memory.shares.reset(topo.nodes(), experts);
    for (auto const expert : first_n<expert_id>(experts)) {
      for (auto const node : memory.choice.hosts(expert))
        memory.shares.add_host(expert, node_id{node});
      memory.shares.end_expert();
    }
    memory.shares.balance(demand, topo);
  }

  /// Assigns the experts of nodes to ranks.
  template <shard_layout Layout>
  static void pack(Layout const& layout, fssdp::topology const& topo, int slots,
                   workspace& memory) {
    auto const hosts = memory.shares.hosts();
    memory.packing.reset(topo, std::ranges::max(memory.owned), slots);
    memory.order.clear();
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      auto const& of = hosts[i];
      if (memory.owner_node[of.expert.index()] == of.node)
        memory.packing.add_owned(layout.owner(of.expert), of.expert, of.tokens);
      else
        memory.order.push_back(static_cast<std::uint32_t>(i));
    }
    std::ranges::sort(memory.order, [&](std::uint32_t a, std::uint32_t b) {
      return hosts[a].tokens != hosts[b].tokens ? hosts[a].tokens > hosts[b].tokens : a < b;
    });
    auto target = std::uint64_t{0};  // some rank has at least this much, whatever the replicas
    for (auto const node : first_n<node_id>(topo.nodes())) {
      auto const ranks = topo.ranks_on(node).size();
      target = std::max(target, (memory.shares.loads()[node.index()] + ranks - 1) / ranks);
    }
    for (auto const i : memory.order)
      memory.packing.add_foreign(topo.ranks_on(hosts[i].node), hosts[i].expert, hosts[i].tokens,
                                 target);
    for (auto const node : first_n<node_id>(topo.nodes()))
      memory.packing.even_out(topo.ranks_on(node), target);
  }
};

static_assert(placement_solver<needs_based_materialization>);

}  // namespace fssdp
