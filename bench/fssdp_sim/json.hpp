// SPDX-License-Identifier: Apache-2.0
/// Results as JSON.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "comparison.hpp"

namespace sim {

/// Times in microseconds, of an iteration of all layers; of solving and planning the medians of
/// one.
[[nodiscard]] inline nlohmann::ordered_json to_json(comparison const& one) {
  auto const& of = one.of;
  auto written = nlohmann::ordered_json{
      {"policy", of.policy},
      {"model", of.model},
      {"cluster", of.cluster},
      {"devices", of.devices},
      {"slots", of.slots},
      {"overlap", of.overlap},
      {"iterations", of.iterations},
      {"layers", of.layers},
      {"layers_simulated", of.per_layer.size()},
      {"speedup_over_ep", one.speedup()},
      {"layer_speedup_over_ep", one.layer_speedup()},
      {"load_max_over_mean", mean(of.max_over_mean)},
      {"load_p95", percentile(of.max_over_mean, 0.95)},
      {"iteration_us", of.seconds() * 1e6},
      {"non_moe_us", of.non_moe_seconds * 1e6},
      {"compute_us", of.sum(&layer_result::compute_seconds) * 1e6},
      {"tokens_us", of.sum(&layer_result::token_seconds) * 1e6},
      {"exposed_us", of.sum(&layer_result::exposed_seconds) * 1e6},
      {"bytes", static_cast<std::uint64_t>(std::llround(of.bytes))},
      {"interface_bytes", static_cast<std::uint64_t>(std::llround(of.interface_bytes))},
      {"memory_bytes", static_cast<std::uint64_t>(std::llround(of.memory_bytes))}};
  if (!of.solving_seconds.empty()) {
    written["solving_us"] = percentile(of.solving_seconds, 0.5) * 1e6;
    written["planning_us"] = percentile(of.planning_seconds, 0.5) * 1e6;
  }
  return written;
}

}  // namespace sim
