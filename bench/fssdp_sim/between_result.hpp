// SPDX-License-Identifier: Apache-2.0
/// A policy in each of several groups, and the exchange between them.
#pragma once

#include <cstddef>
#include <vector>

#include "between_cost.hpp"
#include "comparison.hpp"
#include "groups.hpp"
#include "policy.hpp"
#include "result.hpp"
#include "setting.hpp"

namespace sim {

/// How all layers of a model go backward; one that was not simulated as the one that stands for it.
/// @param sliced whether every device owns a slice of every expert
[[nodiscard]] inline std::vector<layer_pace> paces_of(policy_result const& of, setting const& where,
                                                      bool sliced) {
  auto const layers = static_cast<std::size_t>(of.layers);
  auto paces = std::vector<layer_pace>{};
  for (std::size_t layer = 0; layer < layers; ++layer) {
    auto const& one = of.per_layer[layer * of.per_layer.size() / layers];
    auto& pace = paces.emplace_back(pace_of(one, of.non_moe_seconds / of.layers));
    if (sliced) pace.owned.assign(pace.owned.size(), where.experts);
  }
  return paces;
}

/// One method on one wire, beside ep and full gradients on the same one.
struct between_result {
  comparison inside;  ///< of one group, as if it were alone
  group_setting of;
  between_cost cost;
  between_cost of_ep;    ///< by the same method
  between_cost of_full;  ///< gradients as they are, of the same policy, in every iteration

  [[nodiscard]] double seconds() const { return inside.of.seconds() + cost.exposed_seconds; }
  [[nodiscard]] double over_ep() const {
    return (inside.ep.seconds() + of_ep.exposed_seconds) / seconds();
  }
  [[nodiscard]] double over_full() const {
    return (inside.of.seconds() + of_full.exposed_seconds) / seconds();
  }
  [[nodiscard]] double share_of_full() const { return cost.bytes / of_full.bytes; }
};

/// @param which the policy that `inside` is of
[[nodiscard]] inline between_result result_between(comparison const& inside, policy const& which,
                                                   setting const& where, group_setting const& of) {
  auto const cost = [&](policy_result const& one, bool sliced, group_setting const& by) {
    auto const units = units_of(*where.model, sliced ? where.topology.ranks() : 1);
    return cost_between(paces_of(one, where, sliced), where.topology,
                        crossing{by.method, units, by.groups}, by, one.seconds());
  };
  auto const sliced = which.costs.moves == movement::sliced;
  auto full = of;
  full.method = between::methods.front();
  full.rhythm = {};
  return {.inside = inside,
          .of = of,
          .cost = cost(inside.of, sliced, of),
          .of_ep = cost(inside.ep, false, of),
          .of_full = cost(inside.of, sliced, full)};
}

}  // namespace sim
