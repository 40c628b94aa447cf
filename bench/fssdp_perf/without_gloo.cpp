// SPDX-License-Identifier: Apache-2.0
// Without Gloo: its baselines are an error that says so.
#include <stdexcept>

#include "gloo_contestant.hpp"

namespace perf {

void require_gloo() {
  throw std::invalid_argument{
      "this program was built without Gloo; expected a baseline that does without it"};
}

contestant gloo_contestant(baseline, any_world_memory) {
  throw std::logic_error{"there is no Gloo"};
}

}  // namespace perf
