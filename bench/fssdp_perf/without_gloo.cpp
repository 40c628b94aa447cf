// SPDX-License-Identifier: Apache-2.0
// What becomes of the baselines of Gloo where it was not found.
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
