// SPDX-License-Identifier: Apache-2.0
/// Measures how long something takes.
#pragma once

#include <chrono>

namespace sim {

/// Calls work() and adds the seconds that it takes to `seconds`.
template <class Work>
decltype(auto) timed(double& seconds, Work work) {
  struct watch {
    double& seconds;
    std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
    ~watch() {
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    }
  };
  auto const running = watch{seconds};
  return work();
}

}  // namespace sim
