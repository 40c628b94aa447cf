// SPDX-License-Identifier: Apache-2.0
/// The best that this library has.
#pragma once

#include "../policy.hpp"
#include "fssdp/solver/needs_based_materialization.hpp"

namespace sim {

[[nodiscard]] inline layer_answer answer_ours(layer_question const& question) {
  auto const solve = fssdp::needs_based_materialization{.experts_in = question.overlap,
                                                        .experts_out = question.overlap,
                                                        .spare_slots = question.slots,
                                                        .cluster = *question.cluster};
  return {*question.owners, solve(*question.predicted, *question.owners), routing_rule::balanced};
}

inline constexpr auto ours =
    policy{.name = "ours",
           .about = "needs-based materialization and balanced routing, and Algorithm 2",
           .answer = answer_ours,
           .shards = sharding::by_load};

}  // namespace sim
