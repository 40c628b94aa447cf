// SPDX-License-Identifier: Apache-2.0
/// A lower bound of the cost of placements within a budget, for instances too large to solve.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

#include "optimum/materialization_problem.hpp"

namespace optimum {

/// The sum of two bounds, in seconds: some rank has the average load; and
///   node out  a node keeps the tokens of experts owned there and of those it takes in, the most
///             wanted at best
///   node in   of the experts owned on a node only so many leave, the most wanted at best: the
///             others' tokens come
///   rank out  the same of a rank, with its own experts and its slots, on one node
[[nodiscard]] inline double cost_bound(materialization_problem const& of) {
  auto const experts = of.owners.size();
  auto const& topo = of.topo;
  auto total = 0.0;
  for (auto const tokens : of.counts.values()) total += static_cast<double>(tokens);
  auto const all_but_largest = [](std::vector<double> values, int many) {
    std::ranges::sort(values, std::greater{});
    auto sum = 0.0;
    for (auto i = static_cast<std::size_t>(many); i < values.size(); ++i) sum += values[i];
    return sum;
  };
  auto port = 0.0;
  for (auto const node : fssdp::first_n<fssdp::node_id>(topo.nodes())) {
    auto remote = std::vector<double>{};  // tokens here of experts owned elsewhere
    auto own = std::vector<double>{};     // tokens elsewhere of experts owned here
    for (std::size_t e = 0; e < experts; ++e) {
      auto here = 0.0;
      auto there = 0.0;
      for (auto const rank : fssdp::first_n<fssdp::rank_id>(topo.ranks()))
        (topo.node(rank) == node ? here : there) +=
            static_cast<double>(of.counts(rank, fssdp::expert_id{e}));
      if (topo.node(of.owners[e]) == node)
        own.push_back(there);
      else
        remote.push_back(here);
    }
    auto const slots = static_cast<int>(topo.ranks_on(node).size()) * of.budget.spare_slots;
    auto const taken = std::min(of.budget.experts_in, slots);
    port = std::max(port, std::max(all_but_largest(remote, taken),
                                   all_but_largest(own, of.budget.experts_out)) /
                              fssdp::node_bandwidth(topo, node));
  }
  if (topo.nodes() == 1)
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(topo.ranks())) {
      auto remote = std::vector<double>{};
      for (std::size_t e = 0; e < experts; ++e)
        if (of.owners[e] != rank)
          remote.push_back(static_cast<double>(of.counts(rank, fssdp::expert_id{e})));
      port = std::max(port, all_but_largest(remote, of.budget.spare_slots) /
                                topo.port(rank).inside_bytes_per_second);
    }
  return 3 * of.rates.forward_seconds_per_row * total / topo.ranks() +
         4 * static_cast<double>(of.rates.token_bytes) * port;
}

}  // namespace optimum
