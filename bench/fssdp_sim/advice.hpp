// SPDX-License-Identifier: Apache-2.0
/// Does replication pay, and with how many slots? Who should own what?
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "comparison.hpp"
#include "owners_of_all.hpp"
#include "policies/ep.hpp"
#include "policies/ours.hpp"
#include "simulate.hpp"

namespace sim {

/// The library's best policy with more and more slots.
struct advice {
  policy_result ep;
  std::vector<policy_result> by_slots;  ///< ascending, the first one without a slot
  std::size_t chosen = 0;               ///< the fewest slots that are about as fast as any
  std::vector<double> expert_loads;     ///< over the mean of their layer, of all iterations
  owners_of_all owners;                 ///< of experts of all layers and of matrices

  [[nodiscard]] policy_result const& best() const { return by_slots[chosen]; }
  [[nodiscard]] double speedup_over_ep() const { return ep.seconds() / best().seconds(); }
  /// What replicas add to owners that are placed by load.
  [[nodiscard]] double gain() const { return by_slots.front().seconds() / best().seconds(); }
  [[nodiscard]] bool pays() const { return chosen > 0; }
};

/// As fast as any: within 1%.
inline constexpr auto good_enough = 1.01;

/// Numbers of slots that are tried for layers of so many experts.
[[nodiscard]] inline std::vector<int> slots_to_try(int experts) {
  auto tried = std::vector<int>{};
  for (auto const slots : {0, 1, 2, 3, 4, 6, 8, 12, 16})
    if (slots < experts) tried.push_back(slots);
  return tried;
}

/// @param play(policy, scenario) simulates
[[nodiscard]] inline advice advise(
    scenario const& of, std::function<policy_result(policy const&, scenario const&)> const& play) {
  auto found =
      advice{.ep = play(ep, of), .by_slots = {}, .expert_loads = {}, .owners = plan_owners(of)};
  for (auto const slots : slots_to_try(of.where->experts)) {
    auto with_slots = of;
    with_slots.slots = slots;
    found.by_slots.push_back(play(ours, with_slots));
  }
  auto const fastest =
      std::ranges::min(found.by_slots, {}, [](auto const& one) { return one.seconds(); }).seconds();
  while (found.best().seconds() > good_enough * fastest) ++found.chosen;
  for (auto const sample : of.samples)
    for (auto const& layer : (*of.loads)[sample].layers) {
      auto values = std::vector<double>(layer.begin(), layer.end());
      auto const average = mean(values);
      if (average == 0) continue;
      for (auto const value : values) found.expert_loads.push_back(value / average);
    }
  return found;
}

}  // namespace sim
