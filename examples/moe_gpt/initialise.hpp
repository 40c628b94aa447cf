// SPDX-License-Identifier: Apache-2.0
/// Random numbers that depend on what they are for, not on who draws them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <random>
#include <span>
#include <type_traits>

#include "expert.hpp"
#include "mix.hpp"
#include "model_shape.hpp"

namespace moe_gpt {

/// Fills with normal numbers. std::normal_distribution differs between standard libraries, so
/// the numbers are made from the bits (Box and Muller).
template <class Real>
void fill_normal(std::span<Real> values, double mean, double deviation, std::uint64_t seed) {
  auto random = std::mt19937_64{seed};
  auto const uniform = [&] { return (static_cast<double>(random() >> 11U) + 0.5) * 0x1p-53; };
  for (std::size_t i = 0; i < values.size(); i += 2) {
    auto const radius = deviation * std::sqrt(-2 * std::log(uniform()));
    auto const angle = 2 * std::numbers::pi * uniform();
    values[i] = static_cast<Real>(mean + radius * std::cos(angle));
    if (i + 1 < values.size()) values[i + 1] = static_cast<Real>(mean + radius * std::sin(angle));
  }
}

/// Initial values of one expert: the same for any owner and any number of ranks.
template <class Real>
void initialise_expert(model_shape const& shape, std::uint64_t seed, std::size_t layer,
                       std::size_t expert, expert_tensors<Real> weights) {
  auto const [w1, b1, w2, b2] = expert_elements(shape.d_model, shape.d_ff());
  auto const tensor_seed = [&](std::uint64_t tensor) {
    return mix({seed, 1, layer, expert, tensor});
  };
  auto const branches = 2 * static_cast<double>(shape.layers);
  fill_normal(std::span{weights.w1, w1}, 0, 1 / std::sqrt(static_cast<double>(shape.d_model)),
              tensor_seed(0));
  std::fill_n(weights.b1, b1, Real{0});
  fill_normal(std::span{weights.w2, w2}, 0,
              1 / std::sqrt(static_cast<double>(shape.d_ff()) * branches), tensor_seed(1));
  std::fill_n(weights.b2, b2, Real{0});
}

}  // namespace moe_gpt
