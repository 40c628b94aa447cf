// SPDX-License-Identifier: Apache-2.0
/// EPLB, the expert parallelism load balancer of DeepSeek: fills slots with experts and replicas.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/placement/load_share.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/placement/physical_experts.hpp"
#include "fssdp/solver/extra_replicas.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// Fills the slots of all ranks, equally many on each, with experts. Owners move, too.
///
/// Hierarchical if the number of groups is a multiple of the number of nodes: each node gets
/// equally many whole groups of consecutive experts, so that a router that limits the groups of a
/// token limits its nodes; in each node the experts with the largest load per replica get the
/// additional slots, and replicas are packed on its ranks. Otherwise global: as if there were one
/// node and one group. Packing assigns the largest item to the least loaded rank that has room; if
/// each rank gets one item, items are assigned in order.
///
/// Ties go to the lower expert, node and rank, and to the first in a node, as in the original
/// (github.com/deepseek-ai/EPLB). Quotients are compared exactly, by cross multiplication, where
/// the original compares rounded floats: decisions differ only in ties, and between loads that are
/// equal as floats. If all loads are zero, all additional slots of a node go to its first expert.
/// @cost O(S log S + S log D) comparisons for S slots; a pure function
struct expert_load_balancer {
  int replicas = 0;  ///< slots of all ranks together, including the first of each expert
  int groups = 1;    ///< all with equally many experts
  fssdp::topology topology = {};  ///< the ranks; equally many on each node

  /// @param loads [experts], any scale
  /// @throws argument_error unless there are experts and ranks, at least one slot for each expert,
  ///         and equally many slots on each rank; in hierarchical mode, unless all groups have
  ///         equally many experts, and all nodes equally many ranks
  [[nodiscard]] physical_experts operator()(std::span<std::uint64_t const> loads) const {
    check(loads.size());
    auto const hierarchical = groups % topology.nodes() == 0;
    auto const nodes = static_cast<std::size_t>(hierarchical ? topology.nodes() : 1);
    auto const ranks = static_cast<std::size_t>(topology.ranks()) / nodes;
    auto const slots = static_cast<std::size_t>(replicas) / nodes / ranks;
    auto logical = std::vector<expert_id>(static_cast<std::size_t>(replicas));
    auto const experts_on = experts_of_nodes(loads, hierarchical ? groups : 1, nodes);
    for (std::size_t node = 0; node < nodes; ++node) {
      auto const on_ranks = slots_of_ranks(loads, experts_on[node], ranks, slots);
      for (std::size_t i = 0; i < ranks; ++i) {
        auto const rank = hierarchical ? topology.ranks_on(node_id{node})[i] : rank_id{i};
        std::ranges::copy(on_ranks[i],
                          logical.begin() + static_cast<std::ptrdiff_t>(rank.index() * slots));
      }
    }
    return {{.experts = static_cast<int>(loads.size()), .ranks = topology.ranks()},
            std::move(logical)};
  }

 private:
  using lists = std::vector<std::vector<expert_id>>;

  void check(std::size_t experts) const {
    auto const ranks = topology.ranks();
    detail::require(experts >= 1, "expert_load_balancer: 0 experts; expected 1 or more");
    detail::require(ranks >= 1, "expert_load_balancer: a topology of 0 ranks; expected 1 or more");
    detail::require(replicas >= 0 && static_cast<std::size_t>(replicas) >= experts,
                    "expert_load_balancer: ", replicas, " replicas; expected ", experts,
                    " or more, one for each expert");
    detail::require(replicas % ranks == 0, "expert_load_balancer: ", replicas, " replicas on ",
                    ranks, " ranks; expected equally many on each");
    detail::require(groups >= 1, "expert_load_balancer: ", groups, " groups; expected 1 or more");
    if (groups % topology.nodes() != 0) return;
    detail::require(experts % static_cast<std::size_t>(groups) == 0,
                    "expert_load_balancer: ", experts, " experts in ", groups,
                    " groups; expected equally many in each");
    for (auto const node : first_n<node_id>(topology.nodes()))
      detail::require(topology.ranks_on(node).size() == topology.ranks_on(node_id{0}).size(),
                      "expert_load_balancer: ", topology.ranks_on(node).size(), " ranks on node ",
                      node, "; expected ", topology.ranks_on(node_id{0}).size(), " as on node 0");
  }

  /// Packs of equally many items each, with similar sums: [packs] of indices into `items`.
  static std::vector<std::vector<std::size_t>> packed(std::span<load_share const> items,
                                                      std::size_t packs) {
    auto result = std::vector<std::vector<std::size_t>>(packs);
    auto order = std::vector<std::size_t>(items.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (items.size() == packs) {
      for (auto const item : order) result[item].push_back(item);
      return result;
    }
    std::ranges::stable_sort(order, [&](auto a, auto b) { return items[a] > items[b]; });
    auto weight = std::vector<load_share_sum>(packs);
    auto room = std::vector<std::size_t>(packs);  // a heap of the packs with room
    std::iota(room.begin(), room.end(), std::size_t{0});
    auto const later = [&](std::size_t a, std::size_t b) {
      auto const by_weight = weight[a] <=> weight[b];
      return by_weight > 0 || (by_weight == 0 && a > b);
    };
    for (auto const item : order) {  // all weights are equal at first: `room` is a heap
      std::ranges::pop_heap(room, later);
      auto const pack = room.back();
      result[pack].push_back(item);
      weight[pack].add(items[item]);
      if (result[pack].size() == items.size() / packs)
        room.pop_back();
      else
        std::ranges::push_heap(room, later);
    }
    return result;
  }

  /// The experts of each node, in whole groups: [nodes].
  static lists experts_of_nodes(std::span<std::uint64_t const> loads, int groups,
                                std::size_t nodes) {
    auto const size = loads.size() / static_cast<std::size_t>(groups);
    auto weights = std::vector<load_share>(static_cast<std::size_t>(groups));
    for (std::size_t e = 0; e < loads.size(); ++e) weights[e / size].load += loads[e];
    auto experts = lists{};
    for (auto const& pack : packed(weights, nodes)) {
      auto& list = experts.emplace_back();
      for (auto const group : pack)
        for (auto e = group * size; e < (group + 1) * size; ++e) list.emplace_back(e);
    }
    return experts;
  }

  /// The experts of each rank of one node, one for each slot: [ranks of the node].
  static lists slots_of_ranks(std::span<std::uint64_t const> loads, std::vector<expert_id> experts,
                              std::size_t ranks, std::size_t slots) {
    auto of_node = expert_loads{};
    for (auto const expert : experts) of_node.push_back(loads[expert.index()]);
    auto const extra = detail::extra_replicas(of_node, ranks * slots - experts.size());
    auto places = std::vector<std::size_t>(experts.size());  // [replicas]: indices into `experts`
    std::iota(places.begin(), places.end(), std::size_t{0});
    places.insert(places.end(), extra.begin(), extra.end());
    auto count = std::vector<int>(experts.size());
    for (auto const place : places) ++count[place];
    auto shares = std::vector<load_share>{};
    for (auto const place : places)
      shares.push_back({.load = of_node[place], .replicas = count[place]});
    auto result = lists{};
    for (auto const& pack : packed(shares, ranks)) {
      auto& list = result.emplace_back();
      for (auto const replica : pack) list.push_back(experts[places[replica]]);
    }
    return result;
  }
};

}  // namespace fssdp
