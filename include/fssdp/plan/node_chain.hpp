// SPDX-License-Identifier: Apache-2.0
/// Chains over nodes: the order in which a chunk visits the nodes that need it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "fssdp/core/index.hpp"

namespace fssdp {

/// The node where a chunk starts, and the other nodes that need it, ascending.
struct node_demand {
  node_id owner_node;
  std::vector<node_id> wanted;
};

namespace detail {

/// Chooses the last node (leaf) of each chain. In a chain of k nodes every node but the leaf sends
/// once, so the choice of leaves balances what nodes send.
class leaf_balance {
 public:
  leaf_balance(std::vector<node_demand> const& demands, int nodes)
      : demands_{demands},
        nodes_{nodes},
        out_(static_cast<std::size_t>(nodes)),
        leaf_(demands.size(), node_id{-1}) {
    for (auto const& demand : demands_) {
      if (demand.wanted.empty()) continue;
      ++out_[demand.owner_node.index()];
      for (auto const node : demand.wanted) ++out_[node.index()];
    }
    choose();
    while (improve()) {
    }
  }

  [[nodiscard]] node_id leaf(std::size_t chunk) const { return leaf_[chunk]; }
  /// The distance from one node to another in ring order.
  [[nodiscard]] int distance(node_id from, node_id to) const {
    return (to.value() - from.value() + nodes_) % nodes_;
  }

 private:
  /// A first choice: chunks with few destinations first; the busiest destination, then the nearest
  /// in ring order.
  void choose() {
    auto order = std::vector<std::size_t>{};
    for (std::size_t e = 0; e < demands_.size(); ++e)
      if (!demands_[e].wanted.empty()) order.push_back(e);
    std::ranges::stable_sort(order, {}, [&](std::size_t e) { return demands_[e].wanted.size(); });
    for (auto const e : order) {
      auto const& [owner_node, wanted] = demands_[e];
      auto best = wanted.front();
      for (auto const node : wanted) {
        auto const busier = out_[node.index()] - out_[best.index()];
        if (busier > 0 || (busier == 0 && distance(owner_node, node) < distance(owner_node, best)))
          best = node;
      }
      leaf_[e] = best;
      --out_[best.index()];
    }
  }

  /// Shifts leaves along a path to the busiest node, if all others then stay below its load.
  bool improve() {
    auto const busiest = node_id{std::ranges::max_element(out_) - out_.begin()};
    struct step {
      node_id node;
      std::size_t from;   // the previous step, towards the busiest node
      std::size_t chunk;  // whose leaf moves from this node to that of the previous step
    };
    auto path = std::vector<step>{{busiest, 0, 0}};
    auto seen = std::vector<bool>(static_cast<std::size_t>(nodes_));
    seen[busiest.index()] = true;
    for (std::size_t at = 0; at < path.size(); ++at) {
      for (std::size_t e = 0; e < demands_.size(); ++e) {
        auto const x = leaf_[e];
        if (x.value() < 0 || seen[x.index()] ||
            !std::ranges::count(demands_[e].wanted, path[at].node))
          continue;
        seen[x.index()] = true;
        path.push_back({x, at, e});
        if (out_[x.index()] + 1 >= out_[busiest.index()]) continue;
        for (auto back = path.size() - 1; back != 0; back = path[back].from)
          leaf_[path[back].chunk] = path[path[back].from].node;
        ++out_[x.index()];
        --out_[busiest.index()];
        return true;
      }
    }
    return false;
  }

  std::vector<node_demand> const& demands_;
  int nodes_;
  std::vector<int> out_;  // [nodes]: chunks that each sends to other nodes
  std::vector<node_id> leaf_;
};

}  // namespace detail

/// For every chunk, the nodes that it visits after its owner's node, in order.
///
/// Each node gets a chunk once and passes it on at most once. The last nodes are chosen such that
/// the busiest node sends as little as exchanges of leaves can achieve.
/// @cost O(C N) space for C chunks and N nodes; O(C N^2) time per improvement, with at most one
///       improvement per transfer
[[nodiscard]] inline std::vector<std::vector<node_id>> node_chains(
    std::vector<node_demand> const& demands, int nodes) {
  auto const balance = detail::leaf_balance{demands, nodes};
  auto chains = std::vector<std::vector<node_id>>{};
  for (std::size_t e = 0; e < demands.size(); ++e) {
    auto chain = demands[e].wanted;
    if (!chain.empty()) {
      auto const owner_node = demands[e].owner_node;
      auto const last = balance.distance(owner_node, balance.leaf(e));
      std::ranges::sort(chain, {}, [&](node_id node) {  // in ring order after the leaf; leaf last
        auto const steps = balance.distance(owner_node, node);
        return steps > last ? steps - nodes : steps;
      });
    }
    chains.push_back(std::move(chain));
  }
  return chains;
}

}  // namespace fssdp
