// SPDX-License-Identifier: Apache-2.0
/// SmartMoE: experts move between devices.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "../policy.hpp"

namespace sim {

/// The hottest first, to the least loaded device of the least loaded node, of those that own fewer
/// experts than their share.
[[nodiscard]] inline fssdp::table_layout relocated(fssdp::topology const& topo,
                                                   fssdp::expert_loads const& loads) {
  auto const ranks = static_cast<std::size_t>(topo.ranks());
  auto free = std::vector<std::size_t>{};
  auto free_on = std::vector<std::size_t>(static_cast<std::size_t>(topo.nodes()));
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(topo.ranks())) {
    free.push_back(loads.size() / ranks + (rank.index() < loads.size() % ranks ? 1 : 0));
    free_on[topo.node(rank).index()] += free.back();
  }
  auto load = std::vector<std::uint64_t>(ranks);
  auto load_on = std::vector<std::uint64_t>(free_on.size());
  auto const least = [](auto const& places, auto const& loads_of, auto const& free_of) {
    auto best = *places.begin();
    for (auto const place : places) {
      if (free_of[place.index()] == 0) continue;
      if (free_of[best.index()] == 0 || loads_of[place.index()] < loads_of[best.index()])
        best = place;
    }
    return best;
  };
  auto owners = std::vector<fssdp::rank_id>(loads.size());
  for (auto const expert : fssdp::by_load(loads)) {
    auto const node = least(fssdp::first_n<fssdp::node_id>(topo.nodes()), load_on, free_on);
    auto const rank = least(topo.ranks_on(node), load, free);
    --free[rank.index()];
    --free_on[node.index()];
    load[rank.index()] += loads[expert.index()];
    load_on[node.index()] += loads[expert.index()];
    owners[expert.index()] = rank;
  }
  return {{.ranks = topo.ranks()}, std::move(owners)};
}

[[nodiscard]] inline layer_answers answers_of_smartmoe(layer_question const& question) {
  auto owners = relocated(*question.topology, question.counts->loads());
  auto where = fssdp::placement{owners};
  auto answers = layer_answers{};
  answers.push_back({std::move(owners), std::move(where)});
  answers.push_back({*question.owners, fssdp::placement{*question.owners}});
  return answers;
}

inline constexpr auto smartmoe =
    policy{.name = "smartmoe",
           .about = "no replicas; new owners in every iteration by the real counts, moved for free",
           .answers = answers_of_smartmoe};

}  // namespace sim
