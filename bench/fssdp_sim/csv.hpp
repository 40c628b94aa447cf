// SPDX-License-Identifier: Apache-2.0
/// Results as CSV: a line for every layer, and one for all of them.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>

#include "comparison.hpp"

namespace sim {

[[nodiscard]] inline std::string csv_head() {
  return "cluster,devices,model,policy,layer,speedup_over_ep,layer_speedup_over_ep,"
         "load_max_over_mean,load_p95,non_moe_us,compute_us,tokens_us,exposed_us,bytes,"
         "memory_bytes,interface_bytes\n";
}

/// The line of all layers has "all" for the layer; what only it has is empty in the others.
[[nodiscard]] inline std::string csv_lines(comparison const& one) {
  auto const& of = one.of;
  auto const name = fmt::format("{},{},{},{},", of.cluster, of.devices, of.model, of.policy);
  auto text = fmt::format(
      "{}all,{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.0f},{:.0f},{:.0f}\n", name,
      one.speedup(), one.layer_speedup(), mean(of.max_over_mean),
      percentile(of.max_over_mean, 0.95), of.non_moe_seconds * 1e6,
      of.sum(&layer_result::compute_seconds) * 1e6, of.sum(&layer_result::token_seconds) * 1e6,
      of.sum(&layer_result::exposed_seconds) * 1e6, of.bytes, of.memory_bytes, of.interface_bytes);
  for (std::size_t n = 0; n < of.per_layer.size(); ++n) {
    auto const& layer = of.per_layer[n];
    text += fmt::format("{}{},,{:.6g},{:.6g},,,{:.6g},{:.6g},{:.6g},,,\n", name, of.simulated[n],
                        one.layer_speedup(n), layer.max_over_mean, layer.compute_seconds * 1e6,
                        layer.token_seconds * 1e6, layer.exposed_seconds * 1e6);
  }
  return text;
}

}  // namespace sim
