// SPDX-License-Identifier: Apache-2.0
/// The best policy of this library.
#pragma once

#include <cstdint>
#include <utility>

#include "../policy.hpp"
#include "fssdp/solver/cheapest_materialization.hpp"

namespace sim {

/// The predicted loads as tokens of one iteration: all that are routed now.
[[nodiscard]] inline fssdp::expert_loads as_tokens(fssdp::expert_loads loads, double tokens) {
  auto sum = 0.0;
  for (auto const load : loads) sum += static_cast<double>(load);
  for (auto& load : loads)
    load = sum > 0 ? static_cast<std::uint64_t>(static_cast<double>(load) / sum * tokens) : 0;
  return loads;
}

/// Its solver, with a budget that pays for the tokens of this iteration.
[[nodiscard]] inline fssdp::cheapest_materialization solver_of_ours(
    layer_question const& question) {
  auto tokens = 0.0;
  for (auto const count : question.counts->values()) tokens += static_cast<double>(count);
  auto solve =
      fssdp::cheapest_materialization{.rates = question.rates, .topology = *question.topology};
  if (question.goal == objective::balance) {
    auto const experts = question.owners->experts();
    solve.budget = {.experts_in = experts, .experts_out = experts, .spare_slots = question.slots};
    solve.rates.token_bytes = 0;
  } else {
    solve.budget = fssdp::paying_budget(as_tokens(*question.predicted, tokens), question.rates,
                                        *question.topology, question.slots);
    solve.tokens = tokens;
  }
  return solve;
}

[[nodiscard]] inline layer_answers answers_of_ours(layer_question const& question) {
  auto where = solver_of_ours(question)(*question.predicted, *question.owners);
  return {{*question.owners, std::move(where), routing_rule::balanced}};
}

inline constexpr auto ours =
    policy{.name = "ours",
           .about = "cheapest_materialization of fssdp, Algorithm 2, balanced routing",
           .answers = answers_of_ours,
           .shards = sharding::by_load};

}  // namespace sim
