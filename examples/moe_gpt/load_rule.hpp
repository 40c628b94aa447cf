// SPDX-License-Identifier: Apache-2.0
/// How loads are predicted.
#pragma once

#include "fssdp/placement/any_load_predictor.hpp"
#include "fssdp/placement/load_average.hpp"
#include "fssdp/placement/load_window.hpp"
#include "options.hpp"

namespace moe_gpt {

/// The load predictor that was chosen on the command line.
[[nodiscard]] inline fssdp::any_load_predictor predictor_for(options const& chosen) {
  if (chosen.predict == prediction::average) return fssdp::load_average{chosen.experts};
  return fssdp::load_window{chosen.experts};
}

}  // namespace moe_gpt
