// SPDX-License-Identifier: Apache-2.0
/// Loads as CSV, in the form that read_loads reads.
#pragma once

#include <cstddef>
#include <string>

#include "load_trace.hpp"

namespace sim {

[[nodiscard]] inline std::string to_csv(load_trace const& trace) {
  auto text = std::string{"iter,layer"};
  for (std::size_t e = 0; e < expert_count(trace); ++e) text += ",e" + std::to_string(e);
  text += '\n';
  for (auto const& sample : trace)
    for (std::size_t layer = 0; layer < sample.layers.size(); ++layer) {
      text += std::to_string(sample.iter) + "," + std::to_string(layer);
      for (auto const load : sample.layers[layer]) text += "," + std::to_string(load);
      text += '\n';
    }
  return text;
}

}  // namespace sim
