// SPDX-License-Identifier: Apache-2.0
/// Hecate: Algorithms 1 and 2 of its paper, each on and off, and re-materialization.
#pragma once

#include "../policy.hpp"
#include "ep.hpp"
#include "fssdp/solver/sparse_materialization.hpp"

namespace sim {

[[nodiscard]] inline layer_answer answer_hecate(layer_question const& question) {
  auto const solve = fssdp::sparse_materialization{
      .overlap = question.overlap, .spare_slots = question.slots, .cluster = *question.cluster};
  return {*question.owners, solve(*question.predicted, *question.owners)};
}

inline constexpr auto hecate = policy{.name = "hecate",
                                      .about = "Algorithms 1 and 2 of the paper",
                                      .answer = answer_hecate,
                                      .shards = sharding::by_load};
inline constexpr auto hecate_rm =
    policy{.name = "hecate-rm",
           .about = "the same; replicas are gathered again for the backward pass",
           .answer = answer_hecate,
           .costs = {.often = fssdp::gathers::twice, .replicas = lifetime::layer},
           .shards = sharding::by_load};
inline constexpr auto hecate_no_sharding =
    policy{.name = "hecate-no-sharding",
           .about = "Algorithm 1 alone; experts are owned in blocks",
           .answer = answer_hecate};
inline constexpr auto hecate_no_materialization =
    policy{.name = "hecate-no-materialization",
           .about = "Algorithm 2 alone; nothing is replicated",
           .answer = answer_ep,
           .shards = sharding::by_load_alone};

}  // namespace sim
