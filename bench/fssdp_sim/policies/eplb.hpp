// SPDX-License-Identifier: Apache-2.0
/// EPLB, the balancer of DeepSeek, in training.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "../policy.hpp"
#include "fssdp/placement/physical_experts.hpp"
#include "fssdp/solver/expert_load_balancer.hpp"

namespace sim {

/// Every expert belongs to one of its ranks, so that they own about equally many.
[[nodiscard]] inline fssdp::table_layout even_owners(fssdp::physical_experts const& slots) {
  auto order = std::vector<fssdp::expert_id>{};
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(slots.experts()))
    order.push_back(expert);
  std::ranges::stable_sort(order, {}, [&](auto expert) { return slots.logical_count(expert); });
  auto owned = std::vector<int>(static_cast<std::size_t>(slots.ranks()));
  auto owners = std::vector<fssdp::rank_id>(order.size());
  for (auto const expert : order) {
    auto best = slots.rank_of(slots.logical_to_physical(expert).front());
    for (auto const slot : slots.logical_to_physical(expert))
      if (owned[slots.rank_of(slot).index()] < owned[best.index()]) best = slots.rank_of(slot);
    ++owned[best.index()];
    owners[expert.index()] = best;
  }
  return {{.ranks = slots.ranks()}, std::move(owners)};
}

/// As many places on every device as it owns experts and has slots, filled by its global policy, or
/// by the hierarchical one where that is judged to be better. All slots get the same,
/// or those of the node do.
[[nodiscard]] inline layer_answers answers_of_eplb(layer_question const& question) {
  auto const ranks = question.owners->ranks();
  auto const experts = question.owners->experts();
  auto const places = (experts + ranks - 1) / ranks + question.slots;
  auto const nodes = question.topology->nodes();
  auto answers = layer_answers{};
  auto const solve = [&](int groups) {
    auto const slots =
        fssdp::expert_load_balancer{.replicas = places * ranks,
                                    .groups = groups,
                                    .topology = *question.topology}(*question.predicted);
    auto owners = even_owners(slots);
    auto where = fssdp::placement_of(slots, owners);
    answers.push_back({std::move(owners), std::move(where), routing_rule::slots, std::move(slots)});
  };
  solve(1);
  if (question.goal == objective::time) {  // tokens may stay near, too
    if (nodes > 1 && experts % nodes == 0) solve(nodes);
    for (auto n = answers.size(); n-- > 0;) {
      auto near = answers[n];
      near.routing = routing_rule::even;
      answers.push_back(std::move(near));
    }
  }
  return answers;
}

inline constexpr auto eplb =
    policy{.name = "eplb",
           .about =
               "owners and replicas by DeepSeek's balancer, global or hierarchical; moving "
               "them is free",
           .answers = answers_of_eplb,
           .costs = {.moves = movement::synced}};

}  // namespace sim
