// SPDX-License-Identifier: Apache-2.0
/// Distributes the tokens of experts to their replicas.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/routing/balanced_shares.hpp"
#include "fssdp/routing/token_demand.hpp"
#include "fssdp/routing/water_fill.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

FSSDP_INLINE balanced_shares::balanced_shares(placement const& where, topology const& topo,
                                              token_demand const& demand) {
  assign(where, topo, demand);
}

FSSDP_INLINE void balanced_shares::assign(placement const& where, topology const& topo,
                                          token_demand const& demand) {
  detail::require(where.ranks() == topo.ranks() && where.experts() == demand.experts() &&
                      topo.nodes() == demand.nodes(),
                  "balanced_shares: a placement of ", where.experts(), " experts on ",
                  where.ranks(), " ranks, demand of ", demand.nodes(), " nodes for ",
                  demand.experts(), " experts; the topology has ", topo.nodes(), " nodes and ",
                  topo.ranks(), " ranks");
  collect(where, topo);
  nodes_.balance(demand, topo);
  auto const target = pour(topo);
  if (topo.nodes() > 1) relieve(topo, demand, target);
}

FSSDP_INLINE void balanced_shares::collect(placement const& where, topology const& topo) {
  nodes_.reset(topo.nodes(), where.experts());
  replicas_.clear();
  first_.assign(1, 0);
  for (auto const expert : first_n<expert_id>(where.experts())) {
    auto const begin = static_cast<std::ptrdiff_t>(replicas_.size());
    auto sorted = true;
    for (auto const rank : where.holders(expert)) {
      sorted = sorted && (static_cast<std::ptrdiff_t>(replicas_.size()) == begin ||
                          topo.node(replicas_.back().rank) <= topo.node(rank));
      replicas_.push_back({rank});
    }
    if (!sorted)
      std::sort(replicas_.begin() + begin, replicas_.end(), [&](auto const& a, auto const& b) {
        auto const x = topo.node(a.rank);
        auto const y = topo.node(b.rank);
        return x != y ? x < y : a.rank < b.rank;
      });
    for (auto i = static_cast<std::size_t>(begin); i < replicas_.size(); ++i) {
      auto const node = topo.node(replicas_[i].rank);
      if (i + 1 != replicas_.size() && topo.node(replicas_[i + 1].rank) == node) continue;
      nodes_.add_host(expert, node);
      first_.push_back(static_cast<std::uint32_t>(i + 1));
    }
    nodes_.end_expert();
  }
}

FSSDP_INLINE std::uint64_t balanced_shares::pour(topology const& topo) {
  load_.assign(static_cast<std::size_t>(topo.ranks()), 0);
  auto target = std::uint64_t{0};  // a lower bound for the fullest rank of all nodes
  for (auto const node : first_n<node_id>(topo.nodes())) {
    auto const devices = static_cast<std::uint64_t>(topo.ranks_on(node).size());
    target = std::max(target, (nodes_.loads()[node.index()] + devices - 1) / devices);
  }
  for (auto const node : first_n<node_id>(topo.nodes())) {
    auto const list = nodes_.hosts_on(node);
    std::ranges::sort(list, [&](std::uint32_t a, std::uint32_t b) {
      auto const x = replicas_of(a).size();
      auto const y = replicas_of(b).size();
      if (x != y) return x < y;
      auto const& hosts = nodes_.hosts();
      return hosts[a].tokens != hosts[b].tokens ? hosts[a].tokens > hosts[b].tokens : a < b;
    });
    for (auto const i : list) pour(i);
    level(topo.ranks_on(node), list, target);
  }
  return target;
}

FSSDP_INLINE void balanced_shares::level(std::span<rank_id const> ranks,
                                         std::span<std::uint32_t const> list,
                                         std::uint64_t target) {
  auto const enough = target + target / 512;
  for (int round = 0; round < most_rounds; ++round) {
    auto fullest = std::uint64_t{0};
    for (auto const rank : ranks) fullest = std::max(fullest, load_[rank.index()]);
    if (fullest <= enough) return;
    auto moved = std::uint64_t{0};
    for (auto const i : list) {
      if (replicas_of(i).size() == 1) continue;
      for (auto const& [rank, tokens] : replicas_of(i)) load_[rank.index()] -= tokens;
      moved += pour(i);
    }
    if (moved <= fullest / 1024) return;
  }
}

FSSDP_INLINE void balanced_shares::relieve(topology const& topo, token_demand const& demand,
                                           std::uint64_t target) {
  auto const enough = target + target / 256;
  auto const moves = std::min<std::size_t>(2 * load_.size(), most_moves);
  for (auto move = std::size_t{0}; move < moves; ++move) {
    auto const fullest = std::ranges::max_element(load_);
    if (*fullest <= enough) return;
    if (move == 0) index_replicas();
    if (!relieve(rank_id{fullest - load_.begin()}, topo, demand)) return;
  }
}

FSSDP_INLINE bool balanced_shares::relieve(rank_id from, topology const& topo,
                                           token_demand const& demand) {
  auto best_from = replicas_.size();
  auto best_to = replicas_.size();
  auto best = std::uint64_t{0};
  for (auto k = rank_first_[from.index()]; k < rank_first_[from.index() + 1]; ++k) {
    auto const i = by_rank_[k];
    if (replicas_[i].tokens == 0) continue;
    auto const expert = nodes_.hosts()[host_of_[i]].expert;
    for (auto const& host : nodes_.hosts(expert)) {
      if (host.node == topo.node(from)) continue;
      auto const h = static_cast<std::size_t>(&host - nodes_.hosts().data());
      for (auto j = first_[h]; j < first_[h + 1]; ++j) {
        auto const there = load_[replicas_[j].rank.index()];
        if (there >= load_[from.index()]) continue;
        auto const most = std::min({(load_[from.index()] - there) / 2, replicas_[i].tokens,
                                    nodes_.room(nodes_.hosts()[host_of_[i]], host, demand)});
        if (most <= best) continue;
        best = most;
        best_from = i;
        best_to = j;
      }
    }
  }
  if (best <= load_[from.index()] / 1024) return false;
  nodes_.shift(nodes_.hosts()[host_of_[best_from]], nodes_.hosts()[host_of_[best_to]], best,
               demand);
  replicas_[best_from].tokens -= best;
  load_[from.index()] -= best;
  replicas_[best_to].tokens += best;
  load_[replicas_[best_to].rank.index()] += best;
  return true;
}

FSSDP_INLINE void balanced_shares::index_replicas() {
  host_of_.resize(replicas_.size());
  rank_first_.assign(load_.size() + 1, 0);
  for (std::size_t h = 0; h + 1 < first_.size(); ++h)
    for (auto i = first_[h]; i < first_[h + 1]; ++i) {
      host_of_[i] = static_cast<std::uint32_t>(h);
      ++rank_first_[replicas_[i].rank.index() + 1];
    }
  for (std::size_t r = 1; r < rank_first_.size(); ++r) rank_first_[r] += rank_first_[r - 1];
  next_.assign(rank_first_.begin(), rank_first_.end());
  by_rank_.resize(replicas_.size());
  for (std::size_t i = 0; i < replicas_.size(); ++i)
    by_rank_[next_[replicas_[i].rank.index()]++] = static_cast<std::uint32_t>(i);
}

FSSDP_INLINE std::uint64_t balanced_shares::pour(std::uint32_t host) {
  auto const tokens = nodes_.hosts()[host].tokens;
  if (auto const only = first_[host]; only + 1 == first_[host + 1]) {
    replicas_[only].tokens = tokens;
    load_[replicas_[only].rank.index()] += tokens;
    return 0;
  }
  auto moved = std::uint64_t{0};
  vessels_.clear();
  for (auto i = first_[host]; i < first_[host + 1]; ++i)
    vessels_.push_back({.level = load_[replicas_[i].rank.index()], .number = i});
  detail::water_fill(vessels_, tokens);
  for (auto const& [level, poured, i] : vessels_) {
    moved += poured > replicas_[i].tokens ? poured - replicas_[i].tokens : 0;
    replicas_[i].tokens = poured;
    load_[replicas_[i].rank.index()] += poured;
  }
  return moved;
}

}  // namespace fssdp
