// SPDX-License-Identifier: Apache-2.0
/// Causal self-attention with several heads, forward and backward.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "math.hpp"
#include "matmul.hpp"

namespace moe_gpt {

/// Rows are positions, the sequences one after the other: [sequences * seq, d_model].
struct attention_shape {
  std::size_t sequences = 0;
  std::size_t seq = 0;
  std::size_t d_model = 0;
  std::size_t heads = 1;

  [[nodiscard]] std::size_t rows() const { return sequences * seq; }
  [[nodiscard]] std::size_t head_width() const { return d_model / heads; }
};

/// The weights, or their gradients. There are no biases: the gradient of a key bias is zero, and
/// Adam would turn its rounding noise into steps.
template <class Real>
struct attention_tensors {
  std::span<Real> wqkv;  ///< [d_model, 3 d_model]: queries, keys, values
  std::span<Real> wo;    ///< [d_model, d_model]

  operator attention_tensors<Real const>() const requires(!std::is_const_v<Real>) {
    return {wqkv, wo};
  }
};

/// What the backward pass needs of the forward pass.
template <class Real>
struct attention_activations {
  std::vector<Real> qkv;            ///< [rows, 3 d_model]
  std::vector<Real> probabilities;  ///< [sequences, heads, seq, seq], zero above the diagonal
  std::vector<Real> mixed;          ///< [rows, d_model], the heads side by side
};

/// Memory of the backward pass that all layers can share.
template <class Real>
struct attention_scratch {
  std::vector<Real> d_qkv;
  std::vector<Real> d_mixed;
  std::vector<Real> d_scores;
};

namespace detail {

enum class part : std::size_t { query, key, value };

/// One head of one sequence in [rows, 3 d_model]: [seq, head_width].
template <class Real>
[[nodiscard]] matrix<Real> head_of(attention_shape const& shape, Real* qkv, part which,
                                   std::size_t sequence, std::size_t head) {
  auto const stride = 3 * shape.d_model;
  auto const column = static_cast<std::size_t>(which) * shape.d_model + head * shape.head_width();
  return {qkv + sequence * shape.seq * stride + column, shape.seq, shape.head_width(), stride};
}

/// One head of one sequence in [rows, d_model]: [seq, head_width].
template <class Real>
[[nodiscard]] matrix<Real> head_of(attention_shape const& shape, Real* mixed, std::size_t sequence,
                                   std::size_t head) {
  return {mixed + sequence * shape.seq * shape.d_model + head * shape.head_width(), shape.seq,
          shape.head_width(), shape.d_model};
}

/// The probabilities of one head of one sequence: [seq, seq].
template <class Real>
[[nodiscard]] matrix<Real> scores_of(attention_shape const& shape, Real* scores,
                                     std::size_t sequence, std::size_t head) {
  return {scores + (sequence * shape.heads + head) * shape.seq * shape.seq, shape.seq, shape.seq,
          shape.seq};
}

}  // namespace detail

/// y [rows, d_model] is written; a position sees itself and what came before it.
template <class Real>
void attention_forward(attention_shape const& shape,
                       std::type_identity_t<attention_tensors<Real const>> weights, input<Real> x,
                       output<Real> y, attention_activations<Real>& kept) {
  auto const rows = shape.rows();
  auto const d_model = shape.d_model;
  kept.qkv.resize(rows * 3 * d_model);
  kept.probabilities.resize(shape.sequences * shape.heads * shape.seq * shape.seq);
  kept.mixed.resize(rows * d_model);

  multiply_ab(as_matrix(x, rows, d_model), as_matrix(weights.wqkv, d_model, 3 * d_model),
              as_matrix(std::span{kept.qkv}, rows, 3 * d_model), update::write);
  auto const scale = 1 / std::sqrt(static_cast<Real>(shape.head_width()));
  for (std::size_t s = 0; s < shape.sequences; ++s)
    for (std::size_t h = 0; h < shape.heads; ++h) {
      auto const query = detail::head_of(shape, kept.qkv.data(), detail::part::query, s, h);
      auto const key = detail::head_of(shape, kept.qkv.data(), detail::part::key, s, h);
      auto const value = detail::head_of(shape, kept.qkv.data(), detail::part::value, s, h);
      auto const scores = detail::scores_of(shape, kept.probabilities.data(), s, h);
      multiply_abt(query, key, scores, update::write);
      for (std::size_t i = 0; i < shape.seq; ++i) {
        auto const row = scores.row(i);
        auto const seen = row.first(i + 1);
        for (auto& score : seen) score *= scale;
        softmax(seen);
        std::ranges::fill(row.subspan(i + 1), Real{0});
      }
      multiply_ab(scores, value, detail::head_of(shape, kept.mixed.data(), s, h), update::write);
    }
  multiply_ab(as_matrix(std::span{kept.mixed}, rows, d_model),
              as_matrix(weights.wo, d_model, d_model), as_matrix(y, rows, d_model), update::write);
}

/// dx [rows, d_model] is written, the gradients are added to.
template <class Real>
void attention_backward(attention_shape const& shape,
                        std::type_identity_t<attention_tensors<Real const>> weights, input<Real> x,
                        input<Real> dy, attention_activations<Real> const& kept, output<Real> dx,
                        std::type_identity_t<attention_tensors<Real>> gradients,
                        attention_scratch<Real>& scratch) {
  auto const rows = shape.rows();
  auto const d_model = shape.d_model;
  scratch.d_qkv.resize(rows * 3 * d_model);
  scratch.d_mixed.resize(rows * d_model);
  scratch.d_scores.resize(shape.seq * shape.seq);

  multiply_atb(as_matrix(std::span{kept.mixed}, rows, d_model), as_matrix(dy, rows, d_model),
               as_matrix(gradients.wo, d_model, d_model), update::accumulate);
  multiply_abt(as_matrix(dy, rows, d_model), as_matrix(weights.wo, d_model, d_model),
               as_matrix(std::span{scratch.d_mixed}, rows, d_model), update::write);
  auto const scale = 1 / std::sqrt(static_cast<Real>(shape.head_width()));
  auto const d_scores = as_matrix(std::span{scratch.d_scores}, shape.seq, shape.seq);
  for (std::size_t s = 0; s < shape.sequences; ++s)
    for (std::size_t h = 0; h < shape.heads; ++h) {
      using detail::part;
      auto const of = [&](auto* data, part which) {
        return detail::head_of(shape, data, which, s, h);
      };
      auto const* const qkv = kept.qkv.data();
      auto* const d_qkv = scratch.d_qkv.data();
      auto const scores = detail::scores_of(shape, kept.probabilities.data(), s, h);
      auto const d_mixed = detail::head_of(shape, scratch.d_mixed.data(), s, h);
      multiply_atb(scores, d_mixed, of(d_qkv, part::value), update::write);
      multiply_abt(d_mixed, of(qkv, part::value), d_scores, update::write);
      for (std::size_t i = 0; i < shape.seq; ++i) {
        auto const row = d_scores.row(i);
        softmax_backward(scores.row(i).first(i + 1), row.first(i + 1), scale);
        std::ranges::fill(row.subspan(i + 1), Real{0});
      }
      multiply_ab(d_scores, of(qkv, part::key), of(d_qkv, part::query), update::write);
      multiply_atb(d_scores, of(qkv, part::query), of(d_qkv, part::key), update::write);
    }
  auto const d_qkv = as_matrix(std::span{scratch.d_qkv}, rows, 3 * d_model);
  multiply_atb(as_matrix(x, rows, d_model), d_qkv, as_matrix(gradients.wqkv, d_model, 3 * d_model),
               update::accumulate);
  multiply_abt(d_qkv, as_matrix(weights.wqkv, d_model, 3 * d_model), as_matrix(dx, rows, d_model),
               update::write);
}

}  // namespace moe_gpt
