// SPDX-License-Identifier: Apache-2.0
/// Placements on which schedules are judged: few replicas, many, skewed ones, hot experts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fssdp/layout/block_layout.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/solver/sparse_materialization.hpp"
#include "support/dice.hpp"

namespace support {

/// Who gets replicas: two other ranks of every expert; up to a third of all; what Algorithm 1 says
/// for loads that fall as 1 / i; a sixteenth of the experts goes everywhere; so do experts of the
/// first node.
enum class replicated { pairs, random, zipf, hot, hot_node };

/// Two experts on every rank, and their node-aware plan.
[[nodiscard]] inline fssdp::transfer_plan perf_case(replicated how, fssdp::topology const& topo,
                                                    std::uint64_t seed) {
  auto draw = dice{seed};
  auto const ranks = topo.ranks();
  auto const experts = 2 * ranks;
  auto const layout = fssdp::block_layout{{.experts = experts, .ranks = ranks}};
  auto where = fssdp::placement{layout};
  auto shuffled = std::vector<fssdp::expert_id>{};
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(experts))
    if (how != replicated::hot_node || topo.node(layout.owner(expert)) == fssdp::node_id{0})
      shuffled.push_back(expert);
  draw.shuffle(shuffled);
  if (how == replicated::zipf) {
    auto loads = fssdp::expert_loads(static_cast<std::size_t>(experts));
    for (std::size_t i = 0; i < shuffled.size(); ++i)
      loads[shuffled[i].index()] = 1'000'000 / (i + 1);
    auto const solve =
        fssdp::sparse_materialization{.overlap = experts / 4, .spare_slots = 4, .topology = topo};
    return make_plan(layout, solve(loads, layout), topo);
  }
  auto const everywhere = how == replicated::hot || how == replicated::hot_node;
  if (everywhere) shuffled.resize(static_cast<std::size_t>(std::max(1, experts / 16)));
  for (auto const expert : shuffled) {
    auto others = std::vector<fssdp::rank_id>{};
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(ranks))
      if (rank != layout.owner(expert)) others.push_back(rank);
    draw.shuffle(others);
    auto const count = everywhere                 ? ranks - 1
                       : how == replicated::pairs ? 2
                                                  : draw.between(0, ranks / 3);
    others.resize(static_cast<std::size_t>(count));
    for (auto const rank : others) where.add(expert, rank);
  }
  return make_plan(layout, where, topo);
}

}  // namespace support
