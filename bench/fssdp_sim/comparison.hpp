// SPDX-License-Identifier: Apache-2.0
/// A policy compared with expert parallelism.
#pragma once

#include "result.hpp"

namespace sim {

struct comparison {
  policy_result of;
  policy_result ep;  ///< of the same scenario

  /// Of iterations.
  [[nodiscard]] double speedup() const { return ep.seconds() / of.seconds(); }
  /// Of MoE layers alone.
  [[nodiscard]] double layer_speedup() const { return ep.moe_seconds() / of.moe_seconds(); }
  [[nodiscard]] double layer_speedup(std::size_t layer) const {
    return ep.per_layer[layer].seconds() / of.per_layer[layer].seconds();
  }
};

}  // namespace sim
