// SPDX-License-Identifier: Apache-2.0
/// A plan as JSON.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "question.hpp"

namespace ownership {

/// The answer, as --help has it.
[[nodiscard]] inline nlohmann::json to_json(question const& of, fssdp::ownership_plan const& plan) {
  auto owners = nlohmann::json::object();
  auto moves = nlohmann::json::array();
  for (std::size_t i = 0; i < of.names.size(); ++i) {
    auto const owner = plan.owners[i];
    owners[of.names[i]] = owner.value();
    if (!of.before.empty() && of.before[i].value() >= 0 && of.before[i] != owner)
      moves.push_back({{"name", of.names[i]},
                       {"from", of.before[i].value()},
                       {"to", owner.value()},
                       {"bytes", of.items[i].bytes}});
  }
  return {
      {"owners", std::move(owners)},
      {"moves", std::move(moves)},
      {"moved_bytes", plan.moved_bytes},
      {"forced_bytes", plan.forced_bytes},
      {"fullness", plan.fullness},
      {"bound", plan.bound},
      {"most",
       {{"bytes", plan.most.bytes}, {"step_cost", plan.most.step_cost}, {"load", plan.most.load}}},
      {"near_sets", plan.near_sets}};
}

}  // namespace ownership
