// SPDX-License-Identifier: Apache-2.0
/// Which nodes host which experts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/routing/token_demand.hpp"
#include "fssdp/routing/water_fill.hpp"

namespace fssdp::detail {

/// Chooses for every node the experts that leave it and those that it hosts. Of its own experts,
/// the ones that other nodes need most may leave, up to the limit; of all that leave, it takes in
/// those that it needs most. Tokens for other experts go to the nodes that host them. So if more
/// tokens flow into a node than leave any node, one of its experts gets another host, which gives
/// up the expert that it needs least.
/// @cost O(N E + swaps (N + experts of a node * hosts of an expert)); no allocation if it has seen
///       an input as large before
class host_choice {
 public:
  /// @param owner_node [experts]: the node of each
  /// @param most_in [nodes]: the largest number of experts that may enter each
  /// @param most_out the largest number of a node's own experts that may leave it
  void choose(token_demand const& demand, std::span<node_id const> owner_node,
              std::span<std::size_t const> most_in, int most_out) {
    demand_ = &demand;
    owner_node_ = owner_node;
    experts_ = owner_node.size();
    nodes_ = most_in.size();
    most_ = most_in;
    clear();
    send_out(most_out);
    for (std::size_t n = 0; n < nodes_; ++n) take_in(n);
    if (nodes_ > 1) relieve_busiest();
  }

  /// The nodes that host an expert, ascending; its owner's node is one of them.
  [[nodiscard]] std::span<std::uint32_t const> hosts(expert_id expert) {
    auto& list = hosts_[expert.index()];
    std::ranges::sort(list);
    return list;
  }

 private:
  [[nodiscard]] std::uint64_t need(std::size_t node, std::size_t expert) const {
    return (*demand_)(node_id{node}, expert_id{expert});
  }

  void clear() {
    if (hosts_.size() < experts_) {
      hosts_.resize(experts_);
      poured_.resize(experts_);
    }
    if (taken_.size() < nodes_) taken_.resize(nodes_);
    for (std::size_t e = 0; e < experts_; ++e)
      hosts_[e].assign(1, static_cast<std::uint32_t>(owner_node_[e].index()));
    for (auto& list : taken_) list.clear();
    stray_.assign(experts_, 0);
    out_.assign(nodes_, 0);
    into_.assign(nodes_, 0);
    for (std::size_t n = 0; n < nodes_; ++n) {
      auto const row = demand_->of(node_id{n});
      for (std::size_t e = 0; e < experts_; ++e) stray_[e] += row[e];
      out_[n] = std::accumulate(row.begin(), row.end(), std::uint64_t{0});
    }
    for (std::size_t e = 0; e < experts_; ++e) stay(owner_node_[e].index(), e);
  }
  void stay(std::size_t node, std::size_t expert) {
    stray_[expert] -= need(node, expert);
    out_[node] -= need(node, expert);
  }

  /// The experts that may leave their owners' nodes: those that others need most.
  void send_out(int most) {
    order_.clear();
    for (std::size_t e = 0; e < experts_; ++e)
      if (stray_[e] != 0) order_.push_back(static_cast<std::uint32_t>(e));
    std::ranges::sort(order_, [&](std::uint32_t a, std::uint32_t b) {
      return stray_[a] != stray_[b] ? stray_[a] > stray_[b] : a < b;
    });
    left_.assign(nodes_, most);
    sent_.assign(experts_, false);
    for (auto const e : order_)
      if (left_[owner_node_[e].index()]-- > 0) sent_[e] = true;
    std::erase_if(order_, [&](std::uint32_t e) { return !sent_[e]; });
  }

  void take_in(std::size_t node) {
    auto& list = taken_[node];
    auto const most = most_[node];
    if (most == 0) return;
    for (auto const e : order_)
      if (owner_node_[e].index() != node && need(node, e) != 0) list.push_back(e);
    if (list.size() > most) {
      std::ranges::nth_element(list, list.begin() + static_cast<std::ptrdiff_t>(most),
                               [&](std::uint32_t a, std::uint32_t b) {
                                 auto const x = need(node, a);
                                 auto const y = need(node, b);
                                 return x != y ? x > y : a < b;
                               });
      list.resize(most);
    }
    for (auto const e : list) {
      hosts_[e].push_back(static_cast<std::uint32_t>(node));
      stay(node, e);
    }
  }

  void relieve_busiest() {
    std::ranges::sort(order_, [&](std::uint32_t a, std::uint32_t b) {
      auto const x = hosts_[a].size();
      auto const y = hosts_[b].size();
      if (x != y) return x < y;
      return stray_[a] != stray_[b] ? stray_[a] > stray_[b] : a < b;
    });
    own_first_.assign(nodes_ + 1, 0);
    for (auto const node : owner_node_) ++own_first_[node.index() + 1];
    for (std::size_t n = 1; n <= nodes_; ++n) own_first_[n] += own_first_[n - 1];
    next_.assign(own_first_.begin(), own_first_.end());
    own_.resize(experts_);
    for (std::size_t e = 0; e < experts_; ++e) {
      own_[next_[owner_node_[e].index()]++] = static_cast<std::uint32_t>(e);
      if (!sent_[e]) pour(e);
    }
    for (auto const e : order_) pour(e);
    for (auto swaps = 4 * nodes_; swaps > 0; --swaps)
      if (!relieve()) return;
  }

  /// Distributes the tokens from other nodes for an expert over its hosts.
  void pour(std::size_t e) {
    vessels_.clear();
    for (auto const n : hosts_[e]) vessels_.push_back({.level = into_[n], .number = n});
    if (vessels_.size() > 1)
      water_fill(vessels_, stray_[e]);
    else
      vessels_[0].poured = stray_[e];
    poured_[e].clear();
    for (std::size_t i = 0; i < vessels_.size(); ++i) {
      hosts_[e][i] = vessels_[i].number;
      poured_[e].push_back(vessels_[i].poured);
      into_[vessels_[i].number] += vessels_[i].poured;
    }
  }
  void take_back(std::size_t e) {
    for (std::size_t i = 0; i < hosts_[e].size(); ++i) into_[hosts_[e][i]] -= poured_[e][i];
  }
  [[nodiscard]] std::uint64_t poured_on(std::size_t node, std::size_t e) const {
    for (std::size_t i = 0; i < hosts_[e].size(); ++i)
      if (hosts_[e][i] == node) return poured_[e][i];
    return 0;
  }

  /// Adds a host for the expert that brings most tokens into the node with most incoming tokens.
  bool relieve() {
    auto const busiest = static_cast<std::size_t>(std::ranges::max_element(into_) - into_.begin());
    auto const limit = into_[busiest];
    if (limit <= std::ranges::max(out_)) return false;
    auto worst = experts_;
    auto most = std::uint64_t{0};
    auto const consider = [&](std::size_t e) {
      if (!sent_[e] || hosts_[e].size() == nodes_) return;
      auto const tokens = poured_on(busiest, e);
      if (tokens > most) {
        most = tokens;
        worst = e;
      }
    };
    for (auto i = own_first_[busiest]; i < own_first_[busiest + 1]; ++i) consider(own_[i]);
    for (auto const e : taken_[busiest]) consider(e);
    if (worst == experts_) return false;
    return add_host(worst, limit);
  }

  bool add_host(std::size_t e, std::uint64_t limit) {
    hosting_.assign(nodes_, false);
    for (auto const n : hosts_[e]) hosting_[n] = true;
    auto best = nodes_;
    for (std::size_t n = 0; n < nodes_; ++n)
      if (!hosting_[n] && most_[n] != 0 && (best == nodes_ || into_[n] < into_[best])) best = n;
    if (best == nodes_) return false;
    auto const node = best;
    auto& list = taken_[node];
    if (list.size() == most_[node]) {
      auto const least = std::ranges::min_element(list, [&](std::uint32_t a, std::uint32_t b) {
        auto const x = need(node, a);
        auto const y = need(node, b);
        return x != y ? x < y : a > b;
      });
      auto const given_up = need(node, *least);
      if (out_[node] + given_up > limit + need(node, e)) return false;
      if (!drop(node, *least, limit)) return false;
      list.erase(least);
    }
    list.push_back(static_cast<std::uint32_t>(e));
    take_back(e);
    hosts_[e].push_back(static_cast<std::uint32_t>(node));
    stay(node, e);
    pour(e);
    return true;
  }

  /// Removes an expert from a node; its tokens there go to the host with fewest incoming tokens.
  bool drop(std::size_t node, std::size_t e, std::uint64_t limit) {
    auto here = hosts_[e].size();
    auto to = hosts_[e].size();
    for (std::size_t i = 0; i < hosts_[e].size(); ++i) {
      if (hosts_[e][i] == node)
        here = i;
      else if (to == hosts_[e].size() || into_[hosts_[e][i]] < into_[hosts_[e][to]])
        to = i;
    }
    auto const brought = poured_[e][here];
    auto const tokens = brought + need(node, e);
    if (into_[hosts_[e][to]] + tokens >= limit) return false;
    into_[node] -= brought;
    into_[hosts_[e][to]] += tokens;
    poured_[e][to] += tokens;
    stray_[e] += need(node, e);
    out_[node] += need(node, e);
    hosts_[e].erase(hosts_[e].begin() + static_cast<std::ptrdiff_t>(here));
    poured_[e].erase(poured_[e].begin() + static_cast<std::ptrdiff_t>(here));
    return true;
  }

  token_demand const* demand_ = nullptr;
  std::span<node_id const> owner_node_;
  std::size_t experts_ = 0;
  std::size_t nodes_ = 0;
  std::vector<std::vector<std::uint32_t>> hosts_;   // [experts]
  std::vector<std::vector<std::uint64_t>> poured_;  // [experts]: incoming tokens of each host
  std::vector<std::vector<std::uint32_t>> taken_;   // [nodes]: remote experts that it hosts
  std::span<std::size_t const> most_;               // [nodes]: the largest number of these
  std::vector<std::uint64_t> stray_;                // [experts]: tokens that leave their nodes
  std::vector<std::uint64_t> into_, out_;           // [nodes]
  std::vector<bool> sent_, hosting_;                // [experts], [nodes]
  std::vector<std::uint32_t> order_, own_, own_first_, next_;
  std::vector<int> left_;
  std::vector<vessel> vessels_;
};

}  // namespace fssdp::detail
