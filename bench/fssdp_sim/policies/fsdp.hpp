// SPDX-License-Identifier: Apache-2.0
/// Fully sharded data parallelism.
#pragma once

#include "../policy.hpp"
#include "fssdp/solver/everywhere.hpp"

namespace sim {

[[nodiscard]] inline layer_answers answers_of_fsdp(layer_question const& question) {
  return {{*question.owners, fssdp::everywhere{}(*question.owners)}};
}

inline constexpr auto fsdp = policy{
    .name = "fsdp",
    .about =
        "every expert on every device, whatever --slots is; gathered for forward and for backward",
    .answers = answers_of_fsdp,
    .costs = {.often = fssdp::gathers::twice, .replicas = lifetime::layer}};

}  // namespace sim
