// SPDX-License-Identifier: Apache-2.0
/// Algorithm 1 once more, written for the reader: every choice sorts its candidates again.
#pragma once

#include <algorithm>
#include <tuple>
#include <vector>

#include "fssdp/placement/loads.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/topology/topology.hpp"

namespace support {

__extension__ using wide = unsigned __int128;

/// The free slots of each rank.
struct naive_slots {
  fssdp::topology const& topo;
  std::vector<int> free;  // [rank]

  [[nodiscard]] int on_node(fssdp::node_id node) const {
    auto sum = 0;
    for (auto const rank : topo.ranks_on(node)) sum += free[rank.index()];
    return sum;
  }

  /// Node first: not holding the expert, then more free slots, then the lower id. Then the device:
  /// more free slots, then the lower id. Both only where a slot is free and the expert is not.
  bool place(fssdp::placement& where, fssdp::expert_id expert) {
    auto const can = [&](fssdp::rank_id rank) {
      return free[rank.index()] > 0 && !where.holds(rank, expert);
    };
    auto nodes = std::vector<std::tuple<bool, int, int>>{};
    for (auto const node : fssdp::first_n<fssdp::node_id>(topo.nodes())) {
      auto const ranks = topo.ranks_on(node);
      if (std::ranges::none_of(ranks, can)) continue;
      auto const has = std::ranges::any_of(
          ranks, [&](fssdp::rank_id rank) { return where.holds(rank, expert); });
      nodes.emplace_back(has, -on_node(node), node.value());
    }
    if (nodes.empty()) return false;
    auto const node = fssdp::node_id{std::get<2>(*std::ranges::min_element(nodes))};
    auto devices = std::vector<std::tuple<int, int>>{};
    for (auto const rank : topo.ranks_on(node))
      if (can(rank)) devices.emplace_back(-free[rank.index()], rank.value());
    auto const device = fssdp::rank_id{std::get<1>(*std::ranges::min_element(devices))};
    where.add(expert, device);
    --free[device.index()];
    return true;
  }
};

template <fssdp::shard_layout Layout>
[[nodiscard]] fssdp::placement naive_algorithm_1(int t, int m, fssdp::topology const& topo,
                                                 fssdp::expert_loads const& loads,
                                                 Layout const& layout) {
  auto where = fssdp::placement{layout};
  auto top = fssdp::by_load(loads);
  top.resize(std::min(top.size(), static_cast<std::size_t>(t)));
  if (top.size() <= static_cast<std::size_t>(m)) {
    for (auto const expert : top)
      for (auto const rank : fssdp::first_n<fssdp::rank_id>(layout.ranks()))
        where.add(expert, rank);
    return where;
  }
  if (layout.ranks() == 1 || m == 0) return where;
  auto const all_slots = static_cast<wide>(layout.ranks()) * static_cast<wide>(m);
  auto sum = wide{0};
  for (auto const expert : top) sum += loads[expert.index()];
  auto slots = naive_slots{topo, std::vector(static_cast<std::size_t>(layout.ranks()), m)};
  for (auto const expert : top) {
    auto const share = sum == 0 ? all_slots / top.size() : all_slots * loads[expert.index()] / sum;
    auto const most = static_cast<wide>(layout.ranks() - 1);
    auto const n = std::max(wide{1}, std::min(share, most));
    for (auto placed = wide{0}; placed < n; ++placed) slots.place(where, expert);
  }
  return where;
}

}  // namespace support
