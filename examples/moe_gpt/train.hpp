// SPDX-License-Identifier: Apache-2.0
/// A whole training run, as one call.
#pragma once

#include <functional>

#include "rank_world.hpp"

namespace moe_gpt {

/// Trains on all ranks, and returns the report of rank 0. `observe` is called after every step, by
/// rank 0.
/// @throws whatever the first rank that failed has thrown
[[nodiscard]] inline run_record train(options const& chosen, corpus const& text,
                                      std::function<void(step_record const&)> const& observe) {
  return join_world(chosen)->train(text, observe);
}

}  // namespace moe_gpt
