// SPDX-License-Identifier: Apache-2.0
/// Layer normalisation with gain and bias, forward and backward.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "math.hpp"

namespace moe_gpt {

/// The parameters of one layer norm, or their gradients: [d_model] each.
template <class Real>
struct layer_norm_tensors {
  std::span<Real> gain;
  std::span<Real> bias;

  operator layer_norm_tensors<Real const>() const requires(!std::is_const_v<Real>) {
    return {gain, bias};
  }
};

/// What the backward pass needs of the forward pass: [rows] each.
template <class Real>
struct layer_norm_activations {
  std::vector<Real> mean;
  std::vector<Real> inverse_deviation;
};

/// y [rows, d_model] = gain * (x - mean) / deviation + bias, row by row.
template <class Real>
void layer_norm_forward(std::type_identity_t<layer_norm_tensors<Real const>> weights, input<Real> x,
                        output<Real> y, layer_norm_activations<Real>& kept) {
  auto const d_model = weights.gain.size();
  auto const rows = x.size() / d_model;
  kept.mean.resize(rows);
  kept.inverse_deviation.resize(rows);
  auto const* const gain = weights.gain.data();
  auto const* const bias = weights.bias.data();
  for (std::size_t r = 0; r < rows; ++r) {
    auto const* const in = x.data() + r * d_model;
    auto* const out = y.data() + r * d_model;
    auto const width = static_cast<Real>(d_model);
    auto const mean = sum(std::span<Real const>{in, d_model}) / width;
    auto const variance = detail::sum_terms<Real>(d_model, [in, mean](std::size_t i) {
      auto const off = in[i] - mean;
      return off * off;
    });
    auto const inverse = 1 / std::sqrt(variance / width + Real(1e-5));
    for (std::size_t i = 0; i < d_model; ++i) out[i] = (in[i] - mean) * inverse * gain[i] + bias[i];
    kept.mean[r] = mean;
    kept.inverse_deviation[r] = inverse;
  }
}

/// Adds to dx, which already holds the gradient that goes around the norm, and to the gradients.
template <class Real>
void layer_norm_backward(std::type_identity_t<layer_norm_tensors<Real const>> weights,
                         input<Real> x, input<Real> dy, layer_norm_activations<Real> const& kept,
                         output<Real> dx,
                         std::type_identity_t<layer_norm_tensors<Real>> gradients) {
  auto const d_model = weights.gain.size();
  auto const rows = x.size() / d_model;
  auto const* const gain = weights.gain.data();
  auto* const d_gain = gradients.gain.data();
  auto* const d_bias = gradients.bias.data();
  for (std::size_t r = 0; r < rows; ++r) {
    auto const* const in = x.data() + r * d_model;
    auto const* const d_out = dy.data() + r * d_model;
    auto* const d_in = dx.data() + r * d_model;
    auto const mean = kept.mean[r];
    auto const inverse = kept.inverse_deviation[r];
    auto const width = static_cast<Real>(d_model);
    auto const mean_g =
        detail::sum_terms<Real>(d_model, [=](std::size_t i) { return d_out[i] * gain[i]; }) / width;
    auto const mean_gx =
        detail::sum_terms<Real>(
            d_model, [=](std::size_t i) { return d_out[i] * gain[i] * (in[i] - mean); }) *
        inverse / width;
    for (std::size_t i = 0; i < d_model; ++i) {
      auto const normal = (in[i] - mean) * inverse;
      d_gain[i] += d_out[i] * normal;
      d_bias[i] += d_out[i];
      d_in[i] += (d_out[i] * gain[i] - mean_g - normal * mean_gx) * inverse;
    }
  }
}

}  // namespace moe_gpt
