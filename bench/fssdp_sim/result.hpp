// SPDX-License-Identifier: Apache-2.0
/// The result of simulating a policy.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace sim {

/// Means over the iterations. Seconds of one layer.
struct layer_result {
  double compute_seconds = 0;
  double token_seconds = 0;
  double exposed_seconds = 0;
  double max_over_mean = 0;
  double reduction_seconds = 0;         ///< of gradients to their owners
  double exposed_backward_seconds = 0;  ///< the part of exposed_seconds in the backward pass
  std::vector<int> owned = {};          ///< [devices]: experts, in the last iteration

  [[nodiscard]] double seconds() const { return compute_seconds + token_seconds + exposed_seconds; }
};

struct policy_result {
  std::string policy;
  std::string model = {};
  std::string cluster = {};
  int devices = 0;
  int slots = 0;
  int overlap = 0;
  std::size_t iterations = 0;                ///< that were simulated
  int layers = 0;                            ///< of the model
  std::vector<std::size_t> simulated = {};   ///< which of them
  std::vector<layer_result> per_layer = {};  ///< [simulated]
  std::vector<double> max_over_mean = {};    ///< of every layer and iteration
  double non_moe_seconds = 0;                ///< of an iteration, as all that follow
  double bytes = 0;                          ///< sent by all devices
  double interface_bytes = 0;                ///< into the busiest network interface
  double memory_bytes = 0;                   ///< of the device that has most, for experts
  /// What solving and planning took here, of every layer and iteration; empty if it is not
  /// measured.
  std::vector<double> solving_seconds = {};
  std::vector<double> planning_seconds = {};

  /// How much more than what was simulated an iteration has.
  [[nodiscard]] double scale() const {
    return static_cast<double>(layers) / static_cast<double>(per_layer.size());
  }
  /// Over all layers, of an iteration.
  [[nodiscard]] double sum(double layer_result::*part) const {
    auto seconds = 0.0;
    for (auto const& layer : per_layer) seconds += layer.*part;
    return seconds * scale();
  }
  [[nodiscard]] double moe_seconds() const {
    return sum(&layer_result::compute_seconds) + sum(&layer_result::token_seconds) +
           sum(&layer_result::exposed_seconds);
  }
  [[nodiscard]] double seconds() const { return moe_seconds() + non_moe_seconds; }
};

/// With linear interpolation between the two values next to it.
/// @param share 0 to 1
/// @pre at least one value
[[nodiscard]] inline double percentile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  auto const at = share * static_cast<double>(values.size() - 1);
  auto const below = static_cast<std::size_t>(at);
  auto const above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], at - std::floor(at));
}

[[nodiscard]] inline double mean(std::vector<double> const& values) {
  auto sum = 0.0;
  for (auto const value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace sim
