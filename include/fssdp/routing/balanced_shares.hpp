// SPDX-License-Identifier: Apache-2.0
/// How many tokens of each expert every rank that holds it works on, so that none has much more to
/// do than any.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/cluster/topology.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/routing/node_shares.hpp"
#include "fssdp/routing/token_demand.hpp"
#include "fssdp/routing/water_fill.hpp"

namespace fssdp {

/// A rank that holds an expert, and the tokens of that expert that it works on.
struct replica_share {
  rank_id rank;
  std::uint64_t tokens = 0;
};

/// First between nodes, then between the ranks of each. Inside a node, experts are poured over
/// their replicas, those with fewest first; then again and again, each with the others where they
/// are, while that helps: so the sum of squared loads falls to its minimum, where no rank that is
/// fullest could be relieved.
///
/// @cost O(N E + R log R) time with R replicas, times the rounds; no allocation in `assign` once it
///       has seen the largest input
class balanced_shares {
 public:
  balanced_shares() = default;
  /// @throws argument_error if the sizes differ
  balanced_shares(placement const& where, topology const& machine, token_demand const& demand) {
    assign(where, machine, demand);
  }

  /// @param machine with ranks
  void assign(placement const& where, topology const& machine, token_demand const& demand) {
    detail::require(where.ranks() == machine.ranks() && where.experts() == demand.experts() &&
                        machine.nodes() == demand.nodes(),
                    "balanced_shares: a placement of ", where.experts(), " experts on ",
                    where.ranks(), " ranks, demand of ", demand.nodes(), " nodes for ",
                    demand.experts(), " experts; the topology has ", machine.nodes(), " nodes and ",
                    machine.ranks(), " ranks");
    collect(where, machine);
    nodes_.balance(demand, machine);
    pour(machine);
  }

  /// [ranks]: tokens that each works on
  [[nodiscard]] std::span<std::uint64_t const> loads() const { return load_; }
  /// [nodes]: tokens from other nodes
  [[nodiscard]] std::span<std::uint64_t const> into_node() const { return nodes_.into(); }
  /// [nodes]: tokens to other nodes
  [[nodiscard]] std::span<std::uint64_t const> out_of_node() const { return nodes_.out(); }
  /// The nodes that host an expert, ascending.
  [[nodiscard]] std::span<detail::expert_host const> hosts(expert_id expert) const {
    return nodes_.hosts(expert);
  }
  /// The ranks of a host, ascending.
  /// @param host one of hosts(expert)
  [[nodiscard]] std::span<replica_share const> replicas(detail::expert_host const& host) const {
    return replicas_of(static_cast<std::size_t>(&host - nodes_.hosts().data()));
  }

 private:
  /// Reads who holds what: hosts, and their ranks.
  void collect(placement const& where, topology const& machine) {
    nodes_.reset(machine.nodes(), where.experts());
    replicas_.clear();
    first_.assign(1, 0);
    for (auto const expert : first_n<expert_id>(where.experts())) {
      auto const begin = static_cast<std::ptrdiff_t>(replicas_.size());
      auto sorted = true;
      for (auto const rank : where.holders(expert)) {
        sorted = sorted && (static_cast<std::ptrdiff_t>(replicas_.size()) == begin ||
                            machine.node(replicas_.back().rank) <= machine.node(rank));
        replicas_.push_back({rank});
      }
      if (!sorted)
        std::sort(replicas_.begin() + begin, replicas_.end(), [&](auto const& a, auto const& b) {
          auto const x = machine.node(a.rank);
          auto const y = machine.node(b.rank);
          return x != y ? x < y : a.rank < b.rank;
        });
      for (auto i = static_cast<std::size_t>(begin); i < replicas_.size(); ++i) {
        auto const node = machine.node(replicas_[i].rank);
        if (i + 1 != replicas_.size() && machine.node(replicas_[i + 1].rank) == node) continue;
        nodes_.add_host(expert, node);
        first_.push_back(static_cast<std::uint32_t>(i + 1));
      }
      nodes_.end_expert();
    }
  }

  void pour(topology const& machine) {
    load_.assign(static_cast<std::size_t>(machine.ranks()), 0);
    auto target = std::uint64_t{0};  // no node's devices can all have less
    for (auto const node : first_n<node_id>(machine.nodes())) {
      auto const devices = static_cast<std::uint64_t>(machine.ranks_on(node).size());
      target = std::max(target, (nodes_.loads()[node.index()] + devices - 1) / devices);
    }
    for (auto const node : first_n<node_id>(machine.nodes())) {
      auto const list = nodes_.hosts_on(node);
      std::ranges::sort(list, [&](std::uint32_t a, std::uint32_t b) {
        auto const x = replicas_of(a).size();
        auto const y = replicas_of(b).size();
        if (x != y) return x < y;
        auto const& hosts = nodes_.hosts();
        return hosts[a].tokens != hosts[b].tokens ? hosts[a].tokens > hosts[b].tokens : a < b;
      });
      for (auto const i : list) pour(i);
      level(machine.ranks_on(node), list, target);
    }
  }

  /// Pours the experts of a node again while its fullest rank gets emptier.
  void level(std::span<rank_id const> ranks, std::span<std::uint32_t const> list,
             std::uint64_t target) {
    auto const fullest = [&] {
      auto most = std::uint64_t{0};
      for (auto const rank : ranks) most = std::max(most, load_[rank.index()]);
      return most;
    };
    auto const enough = target + target / 1024;
    auto before = fullest();
    for (int round = 0; round < most_rounds && before > enough; ++round) {
      for (auto const i : list) {
        if (replicas_of(i).size() == 1) continue;
        for (auto const& [rank, tokens] : replicas_of(i)) load_[rank.index()] -= tokens;
        pour(i);
      }
      auto const now = fullest();
      if (before - now <= before / 4096) return;
      before = now;
    }
  }

  /// Pours the tokens of a host over its ranks.
  void pour(std::uint32_t host) {
    auto const tokens = nodes_.hosts()[host].tokens;
    auto const first = first_[host];
    auto const count = first_[host + 1] - first;
    if (count == 1) {
      replicas_[first].tokens = tokens;
      load_[replicas_[first].rank.index()] += tokens;
      return;
    }
    vessels_.clear();
    for (auto i = first; i < first + count; ++i)
      vessels_.push_back({.level = load_[replicas_[i].rank.index()], .number = i});
    detail::water_fill(vessels_, tokens);
    for (auto const& [level, poured, i] : vessels_) {
      replicas_[i].tokens = poured;
      load_[replicas_[i].rank.index()] += poured;
    }
  }

  [[nodiscard]] std::span<replica_share const> replicas_of(std::size_t host) const {
    return std::span{replicas_}.subspan(first_[host], first_[host + 1] - first_[host]);
  }

  static constexpr auto most_rounds = 16;

  detail::node_shares nodes_;
  std::vector<std::uint32_t> first_;  // [hosts + 1]: into replicas_
  std::vector<replica_share> replicas_;
  std::vector<std::uint64_t> load_;  // [ranks]
  std::vector<detail::vessel> vessels_;
};

}  // namespace fssdp
