// SPDX-License-Identifier: Apache-2.0
/// Where in a step a rank is, for tests that lose it there.
#pragma once

#include <string_view>

namespace moe_gpt {

/// The parts of a step, in their order, and of what happens between steps.
enum class run_phase {
  reshard,    ///< before owners change
  gather,     ///< before dense parameters are gathered: what the step before has left is mirrored
  forward,    ///< before the forward pass
  backward,   ///< between the two
  reduce,     ///< before gradients are with their owners
  optimizer,  ///< when it has changed the dense parameters, and no expert
  mirror,     ///< before this rank's part in mirroring a step
  recovery,   ///< when others have been lost, and this rank is to take over from them
};

inline constexpr run_phase run_phases[] = {
    run_phase::reshard, run_phase::gather,    run_phase::forward, run_phase::backward,
    run_phase::reduce,  run_phase::optimizer, run_phase::mirror,  run_phase::recovery};

[[nodiscard]] constexpr std::string_view name_of(run_phase which) {
  switch (which) {
    case run_phase::reshard:
      return "reshard";
    case run_phase::gather:
      return "gather";
    case run_phase::backward:
      return "backward";
    case run_phase::reduce:
      return "reduce";
    case run_phase::optimizer:
      return "optimizer";
    case run_phase::mirror:
      return "mirror";
    case run_phase::recovery:
      return "recovery";
    case run_phase::forward:
      break;
  }
  return "forward";
}

/// A rank that stops for good: in a step, counted from 1.
struct lost_at {
  int rank = 0;
  int step = 1;
  run_phase phase = run_phase::forward;
};

}  // namespace moe_gpt
