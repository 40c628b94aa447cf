// SPDX-License-Identifier: Apache-2.0
/// Vectors to the next byte: the output layer, its loss, and drawing a byte from it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

#include "embedding.hpp"
#include "math.hpp"
#include "matmul.hpp"

namespace moe_gpt {

/// logits [rows, 256] = x [rows, d_model] * w [d_model, 256].
template <class Real>
void head_forward(input<Real> w, input<Real> x, std::span<Real> logits) {
  auto const rows = logits.size() / byte_values;
  auto const d_model = w.size() / byte_values;
  multiply_ab(as_matrix(x, rows, d_model), as_matrix(w, d_model, byte_values),
              as_matrix(logits, rows, byte_values), update::write);
}

/// The sum over rows of -log p(target), in nats. Turns the logits into its gradient times `scale`,
/// in place.
template <class Real>
[[nodiscard]] double cross_entropy(std::span<std::uint8_t const> targets, std::span<Real> logits,
                                   double scale) {
  auto loss = 0.0;
  auto const factor = static_cast<Real>(scale);
  for (std::size_t r = 0; r < targets.size(); ++r) {
    auto const row = logits.subspan(r * byte_values, byte_values);
    auto const largest = *std::max_element(row.begin(), row.end());
    auto const target = static_cast<double>(row[targets[r]] - largest);
    auto* const p = row.data();
    for (std::size_t i = 0; i < byte_values; ++i) p[i] = exponential(p[i] - largest);
    auto const total = sum(std::span<Real const>{row});
    loss += std::log(static_cast<double>(total)) - target;
    auto const share = factor / total;
    for (std::size_t i = 0; i < byte_values; ++i) p[i] *= share;
    row[targets[r]] -= factor;
  }
  return loss;
}

/// dx [rows, d_model] is written, d_w [d_model, 256] is added to, from d_logits [rows, 256].
template <class Real>
void head_backward(input<Real> w, input<Real> x, input<Real> d_logits, std::span<Real> dx,
                   output<Real> d_w) {
  auto const rows = d_logits.size() / byte_values;
  auto const d_model = w.size() / byte_values;
  multiply_atb(as_matrix(x, rows, d_model), as_matrix(d_logits, rows, byte_values),
               as_matrix(d_w, d_model, byte_values), update::accumulate);
  multiply_abt(as_matrix(d_logits, rows, byte_values), as_matrix(w, d_model, byte_values),
               as_matrix(dx, rows, d_model), update::write);
}

/// A byte drawn from one row of logits; a low temperature keeps to the likely ones.
template <class Real>
[[nodiscard]] std::uint8_t draw_byte(std::span<Real const> logits, double temperature,
                                     std::mt19937_64& random) {
  auto const largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  auto const weight = [&](std::size_t i) {
    return std::exp((static_cast<double>(logits[i]) - largest) / temperature);
  };
  auto total = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) total += weight(i);
  auto left = total * static_cast<double>(random() >> 11U) * 0x1p-53;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    left -= weight(i);
    if (left < 0) return static_cast<std::uint8_t>(i);
  }
  return static_cast<std::uint8_t>(logits.size() - 1);
}

}  // namespace moe_gpt
