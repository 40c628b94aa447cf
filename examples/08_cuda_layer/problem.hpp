// SPDX-License-Identifier: Apache-2.0
/// What the ranks of 08_cuda_layer begin with, and what they end with.
#pragma once

#include <array>
#include <cstddef>
#include <random>
#include <vector>

#include "fssdp/core/index.hpp"

namespace cuda_layer {

inline constexpr auto ranks = 4;
inline constexpr auto experts = 8;
inline constexpr auto tokens = std::size_t{256};   // of each rank
inline constexpr auto per_token = std::size_t{2};  // experts that a token goes to
inline constexpr auto width = std::size_t{64};
inline constexpr auto hidden = std::size_t{128};
inline constexpr std::array<std::size_t, 2> sizes = {width * hidden, width* hidden};  // w1, w2

[[nodiscard]] inline std::vector<float> numbers(std::size_t count, float scale, unsigned seed) {
  auto engine = std::mt19937{seed};
  auto draw = std::uniform_real_distribution{-scale, scale};
  auto all = std::vector<float>(count);
  for (auto& one : all) one = draw(engine);
  return all;
}
/// w1 [width, hidden] or w2 [hidden, width] of an expert.
[[nodiscard]] inline std::vector<float> parameters(fssdp::expert_id expert, std::size_t which) {
  return numbers(sizes[which], 0.2F, 100 + 2 * static_cast<unsigned>(expert.value()) + which);
}

/// What a rank begins with: its tokens, and what the router has chosen for them. The first experts
/// are busy.
struct batch {
  std::vector<float> x;                   // [tokens, width]
  std::vector<fssdp::expert_id> choices;  // [tokens, per_token]
  std::vector<float> gate;                // [tokens, per_token]: weights, from the router

  explicit batch(unsigned rank)
      : x{numbers(tokens * width, 1, rank)}, gate{numbers(tokens * per_token, 1, 10 + rank)} {
    auto engine = std::mt19937{20 + rank};
    auto const draw = [&](int below) { return static_cast<int>(engine() % below); };
    for (std::size_t t = 0; t < tokens; ++t) {
      auto const first = draw(draw(experts) + 1);
      choices.emplace_back(first);
      choices.emplace_back((first + 1 + draw(experts - 1)) % experts);
    }
  }
};

/// What a rank ends with. The loss is half the sum of all y squared, so the gradient of y is y.
template <class Real>
struct outcome {
  std::vector<Real> y, d_x;                                 // [tokens, width]
  std::vector<Real> d_gate;                                 // [tokens, per_token]
  std::vector<std::array<std::vector<Real>, 2>> d_experts;  // of those that it owns: w1, w2
  std::size_t held = 0;
  std::size_t rows = 0;  // that its experts have worked on
};

}  // namespace cuda_layer
