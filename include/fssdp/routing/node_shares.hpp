// SPDX-License-Identifier: Apache-2.0
/// How many tokens of each expert every node works on, of those that host it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "fssdp/routing/token_demand.hpp"
#include "fssdp/routing/water_fill.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp::detail {

/// A node that hosts an expert.
struct expert_host {
  expert_id expert;
  node_id node;
  std::uint64_t tokens = 0;  ///< of the expert, that it works on
};

/// Tokens stay on their node if it hosts the expert; all others go to hosts, so that no node takes
/// in much more than any. Then what does not fill the busiest port any further evens out how many
/// tokens a device has to work on. An expert's host works on T tokens, its node has d of them: it
/// takes in T - d from other nodes, or sends d - T to them.
///
/// @cost O(N E + hosts log hosts) time; no allocation once it has seen the largest input
class node_shares {
 public:
  void reset(int nodes, int experts) {
    nodes_ = static_cast<std::size_t>(nodes);
    experts_ = static_cast<std::size_t>(experts);
    first_.assign(1, 0);
    hosts_.clear();
  }
  /// Hosts are named by (expert, node) ascending; end_expert ends each expert's.
  void add_host(expert_id expert, node_id node) { hosts_.push_back({expert, node}); }
  void end_expert() { first_.push_back(static_cast<std::uint32_t>(hosts_.size())); }

  void balance(token_demand const& demand, topology const& topo) {
    index_hosts();
    stay_with_owners(demand);
    send_to_hosts();
    even_out(demand, topo);
  }

  /// How many tokens can move from one host of an expert to another, so that no port gets busier
  /// than the busiest was.
  [[nodiscard]] std::uint64_t room(expert_host const& from, expert_host const& to,
                                   token_demand const& demand) const {
    return std::min(can_leave(from, demand), can_enter(to, demand));
  }
  /// Moves up to `most` tokens of an expert from one host to another, so that no port gets busier
  /// than the busiest was. Tokens that came from elsewhere move first.
  /// @return how many
  std::uint64_t shift(expert_host& from, expert_host& to, std::uint64_t most,
                      token_demand const& demand) {
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

  [[nodiscard]] std::span<expert_host> hosts() { return hosts_; }
  [[nodiscard]] std::span<expert_host const> hosts() const { return hosts_; }
  [[nodiscard]] std::span<expert_host const> hosts(expert_id expert) const {
    return std::span{hosts_}.subspan(first_[expert.index()], count(expert.index()));
  }
  /// Positions in hosts(), ascending until the caller sorts them.
  [[nodiscard]] std::span<std::uint32_t> hosts_on(node_id node) {
    return std::span{by_node_}.subspan(node_first_[node.index()],
                                       node_first_[node.index() + 1] - node_first_[node.index()]);
  }
  [[nodiscard]] std::span<std::uint64_t const> into() const { return into_; }   ///< [nodes]
  [[nodiscard]] std::span<std::uint64_t const> out() const { return out_; }     ///< [nodes]
  [[nodiscard]] std::span<std::uint64_t const> loads() const { return load_; }  ///< [nodes]

 private:
  [[nodiscard]] std::size_t count(std::size_t expert) const {
    return first_[expert + 1] - first_[expert];
  }

  /// Tokens of other nodes that a host works on.
  [[nodiscard]] static std::uint64_t brought(expert_host const& host, token_demand const& demand) {
    auto const own = demand(host.node, host.expert);
    return host.tokens > own ? host.tokens - own : 0;
  }
  /// Tokens of a host's node that other nodes work on.
  [[nodiscard]] static std::uint64_t sent_away(expert_host const& host,
                                               token_demand const& demand) {
    auto const own = demand(host.node, host.expert);
    return own > host.tokens ? own - host.tokens : 0;
  }
  /// What a port has left, and what moves without it: no port is above limit_.
  [[nodiscard]] std::uint64_t can_leave(expert_host const& from, token_demand const& demand) const {
    return std::min(from.tokens, brought(from, demand) + (limit_ - out_[from.node.index()]));
  }
  [[nodiscard]] std::uint64_t can_enter(expert_host const& to, token_demand const& demand) const {
    return sent_away(to, demand) + (limit_ - into_[to.node.index()]);
  }

  /// Everything that can stay stays; what cannot is left in stray_.
  void stay_with_owners(token_demand const& demand) {
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

  /// The experts with fewest hosts first, then those with most tokens on the way.
  void send_to_hosts() {
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

  /// From nodes whose devices have more to do than the average to those that have less, or to those
  /// that have not much more; as long as no port gets busier than the busiest is.
  void even_out(token_demand const& demand, topology const& topo) {
    limit_ = std::max(std::ranges::max(into_), std::ranges::max(out_));
    if (nodes_ == 1) return;
    auto const total = std::accumulate(load_.begin(), load_.end(), std::uint64_t{0});
    auto const average = total / static_cast<std::uint64_t>(topo.ranks());
    auto level = average;  // tokens on a device
    for (int round = 0; round < 4; ++round) {
      shift_down_to(level, demand, topo);
      auto fullest = average;
      for (std::size_t n = 0; n < nodes_; ++n)
        fullest = std::max(fullest, load_[n] / topo.ranks_on(node_id{n}).size());
      if (fullest <= average + average / 64) return;
      level = average + (fullest - average) / 2;
    }
  }

  /// Takes what is above a level from every node, as far as other hosts have room below it.
  void shift_down_to(std::uint64_t level, token_demand const& demand, topology const& topo) {
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
          if (has_room) break;  // for others: this one has given all that it has to or can
        }
      }
    }
  }

  void index_hosts() {
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

  std::size_t nodes_ = 0;
  std::size_t experts_ = 0;
  std::vector<std::uint32_t> first_;  // [experts + 1]: into hosts_
  std::vector<expert_host> hosts_;
  std::vector<std::uint64_t> into_, out_, load_;  // [nodes]
  std::vector<std::uint64_t> stray_;              // [experts]
  std::uint64_t limit_ = 0;                       // of every port
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> cursor_;  // [experts]: the first host that may have room
  std::vector<std::uint32_t> by_node_, node_first_, next_;  // hosts, grouped
  std::vector<vessel> vessels_;
};

}  // namespace fssdp::detail
