// SPDX-License-Identifier: Apache-2.0
/// FlexMoE: replicas that stay, with their optimizer state.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "../policy.hpp"
#include "../replica_counts.hpp"

namespace sim {

/// So many replicas beside the owners, by load; each goes to the least loaded device with a slot.
[[nodiscard]] inline fssdp::placement greedy_replicas(layer_question const& question,
                                                      fssdp::expert_loads const& loads,
                                                      std::size_t replicas) {
  auto const& owners = *question.owners;
  auto where = fssdp::placement{owners};
  auto const counts = replica_counts(loads, loads.size() + replicas, owners.ranks());
  auto const share = [&](fssdp::expert_id e) {
    return static_cast<double>(loads[e.index()]) / counts[e.index()];
  };
  auto load_on = std::vector<double>(static_cast<std::size_t>(owners.ranks()));
  auto order = std::vector<fssdp::expert_id>{};
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(owners.experts())) {
    load_on[owners.owner(expert).index()] += share(expert);
    if (counts[expert.index()] > 1) order.push_back(expert);
  }
  std::ranges::stable_sort(order, [&](auto a, auto b) { return share(a) > share(b); });
  auto slots =
      slot_queue{std::move(load_on),
                 std::vector<int>(static_cast<std::size_t>(owners.ranks()), question.slots)};
  for (auto const expert : order)
    for (int n = 1; n < counts[expert.index()]; ++n) {
      auto const rank = slots.take(
          share(expert), [&](int to) { return !where.holds(fssdp::rank_id{to}, expert); });
      if (!rank.has_value()) break;
      where.add(expert, fssdp::rank_id{*rank});
    }
  return where;
}

[[nodiscard]] inline layer_answers answers_of_flexmoe(layer_question const& question) {
  auto const loads = question.counts->loads();
  auto const all =
      static_cast<std::size_t>(question.slots) * static_cast<std::size_t>(question.owners->ranks());
  auto const step = std::size_t{all > 1024 ? 8U : 2U};
  auto answers = layer_answers{{*question.owners, fssdp::placement{*question.owners}}};
  for (auto count = all; count > 0; count /= step) {
    auto const where = greedy_replicas(question, loads, count);
    answers.push_back({*question.owners, where, routing_rule::even});
    answers.push_back({*question.owners, where, routing_rule::uniform});
  }
  return answers;
}

inline constexpr auto flexmoe =
    policy{.name = "flexmoe",
           .about =
               "replicas with optimizer state, as many as pay by the real counts; moving them is "
               "free",
           .answers = answers_of_flexmoe,
           .costs = {.moves = movement::synced, .keeps = replica_state::optimizer_too}};

}  // namespace sim
