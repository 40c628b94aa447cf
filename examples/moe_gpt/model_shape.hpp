// SPDX-License-Identifier: Apache-2.0
/// The sizes of the model.
#pragma once

#include <cstddef>

namespace moe_gpt {

struct model_shape {
  std::size_t layers = 0;
  std::size_t d_model = 0;
  std::size_t heads = 0;
  std::size_t seq = 0;
  std::size_t experts = 0;
  std::size_t top_k = 2;

  [[nodiscard]] constexpr std::size_t d_ff() const { return 2 * d_model; }
};

}  // namespace moe_gpt
