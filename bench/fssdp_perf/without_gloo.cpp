// SPDX-License-Identifier: Apache-2.0
// What becomes of the baselines of Gloo where it was not found.
#include <stdexcept>

#include "gloo_contestant.hpp"

namespace perf {

void require_gloo() {
  throw std::invalid_argument{
      "this program was built without Gloo; expected a baseline that does without it"};
}

template <class T>
contestant gloo_contestant(baseline, std::deque<rank_memory<T>>&) {
  throw std::logic_error{"there is no Gloo"};
}

template contestant gloo_contestant(baseline, std::deque<rank_memory<float>>&);
template contestant gloo_contestant(baseline, std::deque<rank_memory<double>>&);
template contestant gloo_contestant(baseline, std::deque<rank_memory<fssdp::bf16>>&);
template contestant gloo_contestant(baseline, std::deque<rank_memory<fssdp::fp16>>&);

}  // namespace perf
