// SPDX-License-Identifier: Apache-2.0
/// One expert: a feed-forward network of two layers with a GELU between them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "math.hpp"
#include "matmul.hpp"
#include "model_shape.hpp"

namespace moe_gpt {

/// The four tensors of an expert, or their gradients: w1 [d_model, d_ff], b1 [d_ff],
/// w2 [d_ff, d_model], b2 [d_model].
template <class Real>
struct expert_tensors {
  Real* w1 = nullptr;
  Real* b1 = nullptr;
  Real* w2 = nullptr;
  Real* b2 = nullptr;

  operator expert_tensors<Real const>() const requires(!std::is_const_v<Real>) {
    return {w1, b1, w2, b2};
  }
};

/// The elements of w1, b1, w2 and b2.
[[nodiscard]] constexpr std::array<std::size_t, 4> expert_elements(std::size_t d_model,
                                                                   std::size_t d_ff) {
  return {d_model * d_ff, d_ff, d_ff * d_model, d_model};
}

[[nodiscard]] inline std::size_t parameters_of_expert(model_shape const& shape) {
  auto sum = std::size_t{0};
  for (auto const n : expert_elements(shape.d_model, shape.d_ff())) sum += n;
  return sum;
}

struct expert_shape {
  std::size_t tokens = 0;  ///< may be 0
  std::size_t d_model = 0;
  std::size_t d_ff = 0;
};

/// What the backward pass needs of the forward pass: [tokens, d_ff] each.
template <class Real>
struct expert_activations {
  std::vector<Real> before;  ///< before the GELU
  std::vector<Real> after;
};

/// Memory of the backward pass that all experts can share.
template <class Real>
struct expert_scratch {
  std::vector<Real> d_hidden;
};

/// y [tokens, d_model] is written.
template <class Real>
void expert_forward(expert_shape const& shape,
                    std::type_identity_t<expert_tensors<Real const>> weights, input<Real> x,
                    output<Real> y, expert_activations<Real>& kept) {
  auto const [tokens, d_model, d_ff] = shape;
  kept.before.resize(tokens * d_ff);
  kept.after.resize(tokens * d_ff);
  if (tokens == 0) return;

  auto const before = as_matrix(std::span{kept.before}, tokens, d_ff);
  for (std::size_t t = 0; t < tokens; ++t) std::copy_n(weights.b1, d_ff, before.row(t).data());
  multiply_ab(as_matrix(x, tokens, d_model), {weights.w1, d_model, d_ff, d_ff}, before,
              update::accumulate);
  auto const* const in = kept.before.data();
  auto* const out = kept.after.data();
  for (std::size_t i = 0; i < tokens * d_ff; ++i) out[i] = gelu(in[i]);

  auto const result = as_matrix(y, tokens, d_model);
  for (std::size_t t = 0; t < tokens; ++t) std::copy_n(weights.b2, d_model, result.row(t).data());
  multiply_ab(as_matrix(std::span{kept.after}, tokens, d_ff), {weights.w2, d_ff, d_model, d_model},
              result, update::accumulate);
}

/// dx [tokens, d_model] is written, the gradients are added to.
template <class Real>
void expert_backward(expert_shape const& shape,
                     std::type_identity_t<expert_tensors<Real const>> weights, input<Real> x,
                     input<Real> dy, expert_activations<Real> const& kept, output<Real> dx,
                     std::type_identity_t<expert_tensors<Real>> gradients,
                     expert_scratch<Real>& scratch) {
  auto const [tokens, d_model, d_ff] = shape;
  if (tokens == 0) return;
  scratch.d_hidden.resize(tokens * d_ff);
  auto const d_hidden = as_matrix(std::span{scratch.d_hidden}, tokens, d_ff);
  auto const d_result = as_matrix(dy, tokens, d_model);
  auto const add_rows = [](auto const& rows, Real* total) {
    for (std::size_t t = 0; t < rows.rows; ++t) {
      auto const* const row = rows.row(t).data();
      for (std::size_t i = 0; i < rows.columns; ++i) total[i] += row[i];
    }
  };

  multiply_atb(as_matrix(std::span{kept.after}, tokens, d_ff), d_result,
               matrix<Real>{gradients.w2, d_ff, d_model, d_model}, update::accumulate);
  add_rows(d_result, gradients.b2);
  multiply_abt(d_result, {weights.w2, d_ff, d_model, d_model}, d_hidden, update::write);
  auto const* const before = kept.before.data();
  auto* const slope = scratch.d_hidden.data();
  for (std::size_t i = 0; i < tokens * d_ff; ++i) slope[i] *= gelu_slope(before[i]);

  multiply_atb(as_matrix(x, tokens, d_model), d_hidden,
               matrix<Real>{gradients.w1, d_model, d_ff, d_ff}, update::accumulate);
  add_rows(d_hidden, gradients.b1);
  multiply_abt(d_hidden, {weights.w1, d_model, d_ff, d_ff}, as_matrix(dx, tokens, d_model),
               update::write);
}

}  // namespace moe_gpt
