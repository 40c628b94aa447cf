// SPDX-License-Identifier: Apache-2.0
/// How long it takes to plan the transfers of a policy's answer.
#pragma once

#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/schedule.hpp"
#include "policy.hpp"
#include "stopwatch.hpp"

namespace sim {

/// Of whole experts, from the placement to a schedule of pieces over all ports, measured here.
[[nodiscard]] inline double planning_seconds(layer_question const& question,
                                             layer_answer const& answer) {
  auto seconds = 0.0;
  auto const plan = timed(seconds, [&] {
    auto const transfers = fssdp::make_plan(answer.owners, answer.where, *question.topology);
    return fssdp::schedule(transfers, question.rates.expert_bytes, {.effort = 0});
  });
  return seconds;
}

}  // namespace sim
