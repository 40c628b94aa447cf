// SPDX-License-Identifier: Apache-2.0
/// The AdamW step and the learning rate over a run.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <span>
#include <type_traits>

#include "math.hpp"

namespace moe_gpt {

struct adamw_options {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
};

/// One step in place; `step` counts from 1, `gradient_scale` multiplies the gradients (clipping).
template <class Real>
void adamw_step(std::span<Real> parameters, input<Real> gradients, output<Real> first_moment,
                output<Real> second_moment, adamw_options const& options, int step,
                double gradient_scale = 1) {
  auto const rate = options.learning_rate / (1 - std::pow(options.beta1, step));
  auto const correction = 1 / std::sqrt(1 - std::pow(options.beta2, step));
  auto const shrink = static_cast<Real>(1 - options.learning_rate * options.weight_decay);
  auto const beta1 = static_cast<Real>(options.beta1);
  auto const beta2 = static_cast<Real>(options.beta2);
  auto const rate_r = static_cast<Real>(rate);
  auto const correction_r = static_cast<Real>(correction);
  auto const epsilon = static_cast<Real>(options.epsilon);
  auto const scale = static_cast<Real>(gradient_scale);
  auto* const p = parameters.data();
  auto const* const g = gradients.data();
  auto* const m = first_moment.data();
  auto* const v = second_moment.data();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto const gradient = scale * g[i];
    m[i] = beta1 * m[i] + (1 - beta1) * gradient;
    v[i] = beta2 * v[i] + (1 - beta2) * gradient * gradient;
    p[i] = shrink * p[i] - rate_r * m[i] / (std::sqrt(v[i]) * correction_r + epsilon);
  }
}

/// In how many steps the rate rises.
[[nodiscard]] inline int warm_up_of(int steps) { return std::max(1, std::min(10, steps / 10)); }

/// The rate of step 0, 1, ...: a rise over the first steps, then half a cosine down to a tenth.
[[nodiscard]] inline double learning_rate_at(int step, int steps, double peak) {
  auto const warmup = warm_up_of(steps);
  if (step < warmup) return peak * (step + 1) / warmup;
  auto const done = std::min(1.0, static_cast<double>(step - warmup) / std::max(1, steps - warmup));
  return peak * (0.1 + 0.45 * (1 + std::cos(std::numbers::pi * done)));
}

}  // namespace moe_gpt
