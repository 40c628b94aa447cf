// SPDX-License-Identifier: Apache-2.0
/// What a placement would cost an iteration of one layer if its tokens were routed evenly.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fssdp/cluster/topology.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/routing/balanced_shares.hpp"
#include "fssdp/routing/layer_cost.hpp"
#include "fssdp/routing/token_demand.hpp"

namespace fssdp {

/// Judges placements in turn, by layer_cost of balanced_shares. The ranks of a node are taken to have
/// equally many tokens of each expert; gathers to be hidden.
/// @cost that of balanced_shares, and O(replicas); no allocation once it has seen the largest input
class estimated_cost {
 public:
  /// Seconds of computing and of tokens on their way, where `demand` sums up to `tokens`.
  [[nodiscard]] double seconds(placement const& where, topology const& machine,
                               token_demand const& demand, layer_rates const& rates) {
    shares_.assign(where, machine, demand);
    local_.assign(static_cast<std::size_t>(machine.ranks()), 0);
    own_.clear();
    for (auto const node : first_n<node_id>(machine.nodes())) {
      auto sum = std::uint64_t{0};
      for (auto const tokens : demand.of(node)) sum += tokens;
      own_.push_back(sum / machine.ranks_on(node).size());
    }
    for (auto const expert : first_n<expert_id>(where.experts()))
      for (auto const& host : shares_.hosts(expert)) {
        auto const own = demand(host.node, expert) / machine.ranks_on(host.node).size();
        for (auto const& [rank, tokens] : shares_.replicas(host))
          local_[rank.index()] += std::min(own, tokens);
      }
    auto const compute = 3 * static_cast<double>(std::ranges::max(shares_.loads()));
    return compute * rates.seconds_per_token +
           4 * busiest_port(machine) * static_cast<double>(rates.token_bytes);
  }
  /// Of the placement that was judged last.
  [[nodiscard]] balanced_shares const& shares() const { return shares_; }

 private:
  [[nodiscard]] double busiest_port(topology const& machine) const {
    auto busiest = 0.0;
    for (auto const node : first_n<node_id>(machine.nodes())) {
      auto const into = shares_.into_node()[node.index()];
      auto const out = shares_.out_of_node()[node.index()];
      busiest = std::max(busiest,
                         static_cast<double>(std::max(into, out)) / node_bandwidth(machine, node));
      auto const ranks = machine.ranks_on(node).size();
      for (auto const rank : machine.ranks_on(node)) {
        auto const there = local_[rank.index()];
        auto const rank_in = less(shares_.loads()[rank.index()], there + into / ranks);
        auto const rank_out = less(own_[node.index()], there + out / ranks);
        busiest = std::max(busiest, static_cast<double>(std::max(rank_in, rank_out)) /
                                        machine.port(rank).inside_bytes_per_second);
      }
    }
    return busiest;
  }
  static std::uint64_t less(std::uint64_t of, std::uint64_t what) {
    return of > what ? of - what : 0;
  }

  balanced_shares shares_;
  std::vector<std::uint64_t> local_;  // [ranks]: tokens that do not leave
  std::vector<std::uint64_t> own_;    // [nodes]: tokens of a rank
};

}  // namespace fssdp
