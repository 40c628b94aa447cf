// SPDX-License-Identifier: Apache-2.0
/// Tokens per expert, for every layer and some iterations of a training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "fssdp/placement/loads.hpp"

namespace sim {

/// The loads of one iteration.
struct load_sample {
  std::int64_t iter = 0;
  std::vector<fssdp::expert_loads> layers = {};  ///< [layers] of [experts]
};

/// Samples with ascending iterations, all of as many layers and experts; at least one.
using load_trace = std::vector<load_sample>;

[[nodiscard]] inline std::size_t layer_count(load_trace const& of) {
  return of.front().layers.size();
}
[[nodiscard]] inline std::size_t expert_count(load_trace const& of) {
  return of.front().layers.front().size();
}

/// Of a layer and iteration, on average. A token that goes to k experts counts k times.
[[nodiscard]] inline double mean_tokens(load_trace const& of) {
  auto sum = 0.0;
  for (auto const& sample : of)
    for (auto const& layer : sample.layers)
      for (auto const load : layer) sum += static_cast<double>(load);
  return sum / static_cast<double>(of.size() * layer_count(of));
}

/// Only some layers, as far from each other as can be.
[[nodiscard]] inline load_trace thin_layers(load_trace trace, std::size_t layers) {
  auto const all = layer_count(trace);
  if (layers >= all) return trace;
  for (auto& sample : trace) {
    auto kept = std::vector<fssdp::expert_loads>{};
    for (std::size_t n = 0; n < layers; ++n)
      kept.push_back(std::move(sample.layers[n * all / layers]));
    sample.layers = std::move(kept);
  }
  return trace;
}

}  // namespace sim
