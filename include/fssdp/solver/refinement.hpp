// SPDX-License-Identifier: Apache-2.0
/// Makes a placement cheaper, one replica at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/cost/estimated_cost.hpp"
#include "fssdp/cost/layer_cost.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/routing/token_demand.hpp"
#include "fssdp/solver/materialization_budget.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp::detail {

/// Finds the bottleneck: the fullest rank, or the node that receives or sends most tokens. An
/// expert that contributes to it gets one more replica, in a free slot or in place of another one,
/// wherever that lowers the cost. Ends when nothing does, or after `trials`.
/// @cost `trials` times that of estimated_cost, and checks of exchanges that the budget does not
///       allow; no allocation if it has seen an input as large before
class refinement {
 public:
  /// @pre the placement is within the budget
  /// @return the cost in seconds, as estimated_cost
  template <shard_layout Layout>
  double improve(placement& where, Layout const& layout, topology const& topo,
                 token_demand const& demand, layer_rates const& rates,
                 materialization_budget const& budget, int trials) {
    topo_ = &topo;
    demand_ = &demand;
    rates_ = &rates;
    budget_ = budget;
    trials_ = trials;
    index(where, layout);
    seconds_ = cost_.seconds(where, topo, demand, rates);
    fill(where);
    while (trials_ > 0 && step(where)) {
    }
    return seconds_;
  }

 private:
  template <shard_layout Layout>
  void index(placement const& where, Layout const& layout) {
    owner_.clear();
    replicas_.resize(static_cast<std::size_t>(where.ranks()));
    for (auto& list : replicas_) list.clear();
    auto const nodes = static_cast<std::size_t>(topo_->nodes());
    hosted_.assign(nodes * static_cast<std::size_t>(where.experts()), 0);
    into_.assign(nodes, 0);
    out_.assign(nodes, 0);
    spread_.assign(static_cast<std::size_t>(where.experts()), 0);
    for (auto const expert : first_n<expert_id>(where.experts()))
      owner_.push_back(layout.owner(expert));
    for (auto const expert : first_n<expert_id>(where.experts()))
      for (auto const rank : where.holders(expert))
        if (rank != owner_[expert.index()]) count(expert, rank, 1);
  }
  /// Updates all counts when a replica is added (1) or removed (-1).
  void count(expert_id expert, rank_id rank, int change) {
    auto& list = replicas_[rank.index()];
    if (change > 0)
      list.push_back(expert);
    else
      std::erase(list, expert);
    auto const node = topo_->node(rank);
    auto const owner_node = topo_->node(owner_[expert.index()]);
    if (node == owner_node) return;
    auto& here = hosted_[node.index() * owner_.size() + expert.index()];
    here += change;
    if (here != (change > 0 ? 1 : 0)) return;
    into_[node.index()] += change;
    auto& spread = spread_[expert.index()];
    spread += change;
    if (spread == (change > 0 ? 1 : 0)) out_[owner_node.index()] += change;
  }
  void add(placement& where, expert_id expert, rank_id rank) {
    where.add(expert, rank);
    count(expert, rank, 1);
  }
  void remove(placement& where, expert_id expert, rank_id rank) {
    where.remove(expert, rank);
    count(expert, rank, -1);
  }

  /// Fills free slots with experts of their nodes, unless that raises the cost: fewer tokens then
  /// leave their ranks, also if loads are not as expected.
  void fill(placement& where) {
    auto const& shares = cost_.shares();
    weight_.assign(static_cast<std::size_t>(topo_->nodes()) * owner_.size(), 0);
    held_.assign(weight_.size(), 0);
    for (auto const expert : first_n<expert_id>(where.experts()))
      for (auto const& host : shares.hosts(expert)) {
        auto const at = host.node.index() * owner_.size() + expert.index();
        weight_[at] = host.tokens;
        held_[at] = shares.replicas(host).size();
      }
    added_.clear();
    for (auto const rank : first_n<rank_id>(where.ranks()))
      while (replicas_[rank.index()].size() < static_cast<std::size_t>(budget_.spare_slots)) {
        auto const expert = scarcest(where, rank);
        if (!expert.has_value()) break;
        ++held_[topo_->node(rank).index() * owner_.size() + expert->index()];
        add(where, *expert, rank);
        added_.emplace_back(*expert, rank);
      }
    if (added_.empty() || accept(where, 0)) return;
    for (auto const& [expert, rank] : added_) remove(where, expert, rank);
    seconds_ = cost_.seconds(where, *topo_, *demand_, *rates_);  // updates the shares that are read
  }
  /// The expert with most tokens per replica among those that the node hosts and the rank lacks.
  [[nodiscard]] std::optional<expert_id> scarcest(placement const& where, rank_id rank) const {
    auto const first = topo_->node(rank).index() * owner_.size();
    auto best = std::optional<expert_id>{};
    for (auto const expert : first_n<expert_id>(where.experts())) {
      auto const at = first + expert.index();
      if (weight_[at] == 0 || where.holds(rank, expert)) continue;
      if (!best.has_value() ||
          weight_[at] * held_[first + best->index()] > weight_[first + best->index()] * held_[at])
        best = expert;
    }
    return best;
  }
  /// Lists experts with a weight above 0, the largest first.
  void by_weight(std::span<std::uint64_t const> weights) {
    candidates_.clear();
    for (auto const expert : first_n<expert_id>(static_cast<int>(weights.size())))
      if (weights[expert.index()] != 0) candidates_.push_back(expert);
    std::ranges::sort(candidates_, [&](expert_id a, expert_id b) {
      auto const x = weights[a.index()];
      auto const y = weights[b.index()];
      return x != y ? x > y : a < b;
    });
  }

  /// Makes the first exchange that lowers the cost.
  bool step(placement& where) {
    find_candidates(where);
    for (auto const expert : candidates_)
      for (auto const rank : ranks_) {
        if (where.holds(rank, expert)) continue;
        auto const& list = replicas_[rank.index()];
        if (list.size() < static_cast<std::size_t>(budget_.spare_slots)) {
          if (try_exchange(where, expert, rank, expert)) return true;
          continue;
        }
        victims_ = list;
        for (auto const victim : victims_)
          if (try_exchange(where, expert, rank, victim)) return true;
      }
    return false;
  }

  void find_candidates(placement const& where) {
    auto const& shares = cost_.shares();
    auto const loads = shares.loads();
    auto const fullest = rank_id{std::ranges::max_element(loads) - loads.begin()};
    auto const in = shares.into_node();
    auto const busiest_in = node_id{std::ranges::max_element(in) - in.begin()};
    auto const out = shares.out_of_node();
    auto const busiest_out = node_id{std::ranges::max_element(out) - out.begin()};
    weight_.assign(owner_.size(), 0);
    for (auto const expert : first_n<expert_id>(where.experts())) {
      auto& weight = weight_[expert.index()];
      auto const sent = (*demand_)(busiest_out, expert);
      auto hosted_out = false;
      for (auto const& host : shares.hosts(expert)) {
        auto const wanted = (*demand_)(host.node, expert);
        if (host.node == busiest_in && host.tokens > wanted)
          weight = std::max(weight, host.tokens - wanted);
        if (host.node == busiest_out) {
          hosted_out = true;
          if (wanted > host.tokens) weight = std::max(weight, wanted - host.tokens);
        }
        if (host.node == topo_->node(fullest))
          for (auto const& [rank, tokens] : shares.replicas(host))
            if (rank == fullest) weight = std::max(weight, tokens);
      }
      if (!hosted_out) weight = std::max(weight, sent);
    }
    by_weight(weight_);
    ranks_.clear();
    for (auto const rank : first_n<rank_id>(where.ranks())) ranks_.push_back(rank);
    std::ranges::sort(ranks_, [&](rank_id a, rank_id b) {
      auto const x = loads[a.index()];
      auto const y = loads[b.index()];
      return x != y ? x < y : a < b;
    });
  }

  /// Replaces `victim` by `expert`, or puts `expert` in a free slot if they are the same; undoes it
  /// unless that lowers the cost.
  bool try_exchange(placement& where, expert_id expert, rank_id rank, expert_id victim) {
    if (trials_ <= 0 || !is_within_budget(expert, rank, victim)) return false;
    if (victim != expert) remove(where, victim, rank);
    add(where, expert, rank);
    if (accept(where, least_gain)) return true;
    remove(where, expert, rank);
    if (victim != expert) add(where, victim, rank);
    return false;
  }
  [[nodiscard]] bool accept(placement const& where, double gain) {
    --trials_;
    auto const now = cost_.seconds(where, *topo_, *demand_, *rates_);
    if (now > seconds_ * (1 - gain)) return false;
    seconds_ = now;
    return true;
  }
  /// Whether the ports of the two affected nodes are within the budget after an exchange.
  [[nodiscard]] bool is_within_budget(expert_id expert, rank_id rank, expert_id victim) const {
    auto const node = topo_->node(rank);
    auto const owner_node = topo_->node(owner_[expert.index()]);
    auto into = into_[node.index()];
    auto out = out_[owner_node.index()];
    auto const here = [&](expert_id e) {
      return hosted_[node.index() * owner_.size() + e.index()];
    };
    auto const victims_owner = topo_->node(owner_[victim.index()]);
    if (victim != expert && victims_owner != node && here(victim) == 1) {
      --into;
      if (victims_owner == owner_node && spread_[victim.index()] == 1) --out;
    }
    if (owner_node != node && here(expert) == 0) {
      ++into;
      if (spread_[expert.index()] == 0) ++out;
    }
    return into <= budget_.experts_in && out <= budget_.experts_out;
  }

  static constexpr auto least_gain = 1e-3;

  topology const* topo_ = nullptr;
  token_demand const* demand_ = nullptr;
  layer_rates const* rates_ = nullptr;
  materialization_budget budget_;
  int trials_ = 0;
  double seconds_ = 0;
  estimated_cost cost_;
  std::vector<rank_id> owner_;                    // [experts]
  std::vector<std::vector<expert_id>> replicas_;  // [ranks]
  std::vector<int> hosted_;                       // [nodes, experts]: replicas
  std::vector<int> into_, out_;                   // [nodes]: experts
  std::vector<int> spread_;                       // [experts]: remote nodes that host it
  std::vector<std::size_t> held_;                 // [nodes, experts]: replicas, owners included
  std::vector<std::uint64_t> weight_;             // [experts], or [nodes, experts]
  std::vector<expert_id> candidates_, victims_;
  std::vector<std::pair<expert_id, rank_id>> added_;
  std::vector<rank_id> ranks_;
};

}  // namespace fssdp::detail
