// SPDX-License-Identifier: Apache-2.0
/// The loads that placements are made from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "fssdp/placement/load_window.hpp"
#include "load_trace.hpp"

namespace sim {

/// By the loads of one earlier iteration, or by the mean of the last samples.
struct prediction {
  /// How many iterations old: the last sample that is at least so old counts. 0: the real loads;
  /// none: the mean of the last 5 samples, as in the paper.
  std::optional<std::int64_t> stale = {};

  /// Where nothing is old enough, the oldest sample is taken; the first one predicts itself.
  [[nodiscard]] fssdp::expert_loads operator()(load_trace const& trace, std::size_t sample,
                                               std::size_t layer) const {
    if (sample == 0) return trace.front().layers[layer];
    if (!stale.has_value()) {
      constexpr auto length = std::size_t{5};
      auto window = fssdp::load_window{static_cast<int>(expert_count(trace)), length};
      for (auto n = sample > length ? sample - length : 0; n < sample; ++n)
        window.push(trace[n].layers[layer]);
      return window.predict();
    }
    auto at = sample;
    while (at > 0 && trace[at].iter > trace[sample].iter - *stale) --at;
    return trace[at].layers[layer];
  }
};

}  // namespace sim
