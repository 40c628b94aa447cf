// SPDX-License-Identifier: Apache-2.0
/// The best that this library has.
#pragma once

#include "../policy.hpp"
#include "fssdp/solver/cheapest_materialization.hpp"

namespace sim {

[[nodiscard]] inline layer_answer answer_ours(layer_question const& question) {
  auto rates = question.rates;
  if (question.goal == objective::balance) rates.token_bytes = 0;
  auto const solve = fssdp::cheapest_materialization{.budget = {.experts_in = question.overlap,
                                                                .experts_out = question.overlap,
                                                                .spare_slots = question.slots},
                                                     .rates = rates,
                                                     .cluster = *question.cluster};
  return {*question.owners, solve(*question.predicted, *question.owners), routing_rule::balanced};
}

inline constexpr auto ours =
    policy{.name = "ours",
           .about = "cheapest_materialization and balanced_routing of fssdp, and Algorithm 2",
           .answer = answer_ours,
           .shards = sharding::by_load};

}  // namespace sim
