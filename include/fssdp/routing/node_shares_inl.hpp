// SPDX-License-Identifier: Apache-2.0
/// Assigns tokens to nodes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "fssdp/core/index.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/routing/node_shares.hpp"
#include "fssdp/routing/token_demand.hpp"
#include "fssdp/routing/water_fill.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp::detail {

FSSDP_INLINE void node_shares::reset(int nodes, int experts) {
  nodes_ = static_cast<std::size_t>(nodes);
  experts_ = static_cast<std::size_t>(experts);
  first_.assign(1, 0);
  hosts_.clear();
}

FSSDP_INLINE void node_shares::add_host(expert_id expert, node_id node) {
  hosts_.push_back({expert, node});
}

FSSDP_INLINE void node_shares::end_expert() {
  first_.push_back(static_cast<std::uint32_t>(hosts_.size()));
}

FSSDP_INLINE void node_shares::balance(token_demand const& demand, topology const& topo) {
  index_hosts();
  stay_with_owners(demand);
  send_to_hosts();
  even_out(demand, topo);
}

FSSDP_INLINE std::uint64_t node_shares::room(expert_host const& from, expert_host const& to,
                                             token_demand const& demand) const {
  return std::min(can_leave(from, demand), can_enter(to, demand));
}

FSSDP_INLINE std::uint64_t node_shares::shift(expert_host& from, expert_host& to,
                                              std::uint64_t most, token_demand const& demand) {
  auto const f = from.node.index();
  auto const t = to.node.index();
  auto const amount = std::min(most, room(from, to, demand));
  auto const passed_on = std::min(amount, brought(from, demand));
  auto const kept = std::min(amount, sent_away(to, demand));
  from.tokens -= amount;
  to.tokens += amount;
  into_[f] -= passed_on;
  out_[f] += amount - passed_on;
  out_[t] -= kept;
  into_[t] += amount - kept;
  load_[f] -= amount;
  load_[t] += amount;
  return amount;
}

FSSDP_INLINE std::uint64_t node_shares::brought(expert_host const& host,
                                                token_demand const& demand) {
  auto const own = demand(host.node, host.expert);
  return host.tokens > own ? host.tokens - own : 0;
}

FSSDP_INLINE std::uint64_t node_shares::sent_away(expert_host const& host,
                                                  token_demand const& demand) {
  auto const own = demand(host.node, host.expert);
  return own > host.tokens ? own - host.tokens : 0;
}

FSSDP_INLINE std::uint64_t node_shares::can_leave(expert_host const& from,
                                                  token_demand const& demand) const {
  return std::min(from.tokens, brought(from, demand) + (limit_ - out_[from.node.index()]));
}

FSSDP_INLINE std::uint64_t node_shares::can_enter(expert_host const& to,
                                                  token_demand const& demand) const {
  return sent_away(to, demand) + (limit_ - into_[to.node.index()]);
}

FSSDP_INLINE void node_shares::stay_with_owners(token_demand const& demand) {
  into_.assign(nodes_, 0);
  out_.assign(nodes_, 0);
  load_.assign(nodes_, 0);
  stray_.assign(experts_, 0);
  for (std::size_t n = 0; n < nodes_; ++n) {
    auto const row = demand.of(node_id{n});
    for (std::size_t e = 0; e < experts_; ++e) stray_[e] += row[e];
    out_[n] = std::accumulate(row.begin(), row.end(), std::uint64_t{0});
  }
  for (auto& host : hosts_) {
    host.tokens = demand(host.node, host.expert);
    stray_[host.expert.index()] -= host.tokens;
    out_[host.node.index()] -= host.tokens;
    load_[host.node.index()] += host.tokens;
  }
}

FSSDP_INLINE void node_shares::send_to_hosts() {
  order_.clear();
  for (std::size_t e = 0; e < experts_; ++e)
    if (stray_[e] != 0) order_.push_back(static_cast<std::uint32_t>(e));
  std::ranges::sort(order_, [&](std::uint32_t a, std::uint32_t b) {
    if (count(a) != count(b)) return count(a) < count(b);
    return stray_[a] != stray_[b] ? stray_[a] > stray_[b] : a < b;
  });
  for (auto const e : order_) {
    vessels_.clear();
    for (auto i = first_[e]; i < first_[e + 1]; ++i)
      vessels_.push_back({.level = into_[hosts_[i].node.index()], .number = i});
    water_fill(vessels_, stray_[e]);
    for (auto const& [level, poured, i] : vessels_) {
      auto const n = hosts_[i].node.index();
      hosts_[i].tokens += poured;
      into_[n] += poured;
      load_[n] += poured;
    }
  }
}

FSSDP_INLINE void node_shares::even_out(token_demand const& demand, topology const& topo) {
  limit_ = std::max(std::ranges::max(into_), std::ranges::max(out_));
  if (nodes_ == 1) return;
  auto const total = std::accumulate(load_.begin(), load_.end(), std::uint64_t{0});
  auto const average = total / static_cast<std::uint64_t>(topo.ranks());
  auto level = average;  // tokens per rank
  for (int round = 0; round < 4; ++round) {
    shift_down_to(level, demand, topo);
    auto fullest = average;
    for (std::size_t n = 0; n < nodes_; ++n)
      fullest = std::max(fullest, load_[n] / topo.ranks_on(node_id{n}).size());
    if (fullest <= average + average / 64) return;
    level = average + (fullest - average) / 2;
  }
}

FSSDP_INLINE void node_shares::shift_down_to(std::uint64_t level, token_demand const& demand,
                                             topology const& topo) {
  cursor_.assign(first_.begin(), first_.end() - 1);
  auto const room = [&](std::size_t n) { return level * topo.ranks_on(node_id{n}).size(); };
  for (std::size_t n = 0; n < nodes_; ++n) {
    if (load_[n] <= room(n)) continue;
    auto over = load_[n] - room(n);
    for (auto k = node_first_[n]; k < node_first_[n + 1] && over != 0; ++k) {
      auto& from = hosts_[by_node_[k]];
      auto const e = from.expert.index();
      for (auto& at = cursor_[e]; at < first_[e + 1] && over != 0 && from.tokens != 0; ++at) {
        auto& to = hosts_[at];
        auto const t = to.node.index();
        if (load_[t] >= room(t)) continue;
        auto const most = std::min({over, from.tokens, room(t) - load_[t]});
        auto const shifted = shift(from, to, most, demand);
        over -= shifted;
        auto const has_room = load_[t] < room(t) && can_enter(to, demand) != 0;
        if (has_room) break;  // the giver has nothing left to give; the room is for the next one
      }
    }
  }
}

FSSDP_INLINE void node_shares::index_hosts() {
  node_first_.assign(nodes_ + 1, 0);
  for (auto const& host : hosts_) ++node_first_[host.node.index() + 1];
  for (std::size_t n = 1; n <= nodes_; ++n) node_first_[n] += node_first_[n - 1];
  next_.assign(node_first_.begin(), node_first_.end());
  by_node_.resize(hosts_.size());
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    auto const n = hosts_[i].node.index();
    by_node_[next_[n]++] = static_cast<std::uint32_t>(i);
  }
}

}  // namespace fssdp::detail
