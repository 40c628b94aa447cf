// SPDX-License-Identifier: Apache-2.0
/// The size of an expert in the type that it is computed with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "job.hpp"

namespace step {

/// All parameters of an expert, or a few less, so that all slices are equal.
[[nodiscard]] inline std::size_t expert_elements(job const& of, int slices) {
  auto const elements = of.emulates.bytes(of.of.where->rates.expert_bytes) / sizeof(float);
  auto const count = static_cast<std::size_t>(slices);
  return std::max<std::size_t>(1, elements / count) * count;
}

/// An expert as two matrices, w1 [width, hidden] and w2 [hidden, width], one after the other: a row
/// has as many bytes as a token. What is left over after them is moved, but not computed with.
struct expert_shape {
  std::size_t elements;
  std::size_t width;
  std::size_t hidden;
};

/// @throws std::invalid_argument if an expert is too small
[[nodiscard]] inline expert_shape shape_of(job const& of, int slices) {
  auto const elements = expert_elements(of, slices);
  auto const width = of.emulates.bytes(of.of.where->rates.token_bytes) / sizeof(float);
  auto const hidden = width == 0 ? 0 : elements / (2 * width);
  if (hidden == 0)
    throw std::invalid_argument{"--scale " + std::to_string(of.emulates.scale) + ": an expert of " +
                                std::to_string(elements) + " numbers for rows of " +
                                std::to_string(width) + "; expected a smaller one"};
  return {elements, width, hidden < 4 ? hidden : hidden / 4 * 4};
}

}  // namespace step
