// SPDX-License-Identifier: Apache-2.0
/// The router of a MoE layer: which experts a token goes to, and with what weights.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "math.hpp"
#include "matmul.hpp"

namespace moe_gpt {

struct router_shape {
  std::size_t tokens = 0;
  std::size_t d_model = 0;
  std::size_t experts = 0;
  std::size_t top_k = 2;  ///< @pre top_k <= experts
};

/// What the backward pass needs, and what the layer is after: choices and weights, [tokens, top_k],
/// the most probable expert first (ties: the lower id); the weights of a token sum to 1.
template <class Real>
struct router_activations {
  std::vector<Real> probabilities;  ///< [tokens, experts]
  std::vector<int> choices;
  std::vector<Real> weights;
  std::vector<Real> d_logits;  ///< memory of the backward pass
};

/// The load-balancing loss coefficient * experts * sum over e of fractions[e] * P_e, where P_e is
/// the mean probability of e over the tokens of the whole batch. A coefficient of 0 turns it off.
struct balance_loss {
  double coefficient = 0;
  std::span<double const> fractions = {};  ///< share of the batch's choices, constant, [experts]
  std::size_t global_tokens = 0;
};

namespace detail {

/// Writes the k largest of a row, in descending order. A row of NaNs still gives k distinct ids.
template <class Real>
void pick_largest(std::span<Real const> row, std::span<int> picked) {
  for (std::size_t slot = 0; slot < picked.size(); ++slot) {
    auto const before = picked.first(slot);
    auto best = -1;
    for (auto e = 0; e < static_cast<int>(row.size()); ++e) {
      if (std::ranges::find(before, e) != before.end()) continue;
      if (best < 0 || row[static_cast<std::size_t>(e)] > row[static_cast<std::size_t>(best)])
        best = e;
    }
    picked[slot] = best;
  }
}

}  // namespace detail

/// Fills `kept` from x [tokens, d_model] and wg [d_model, experts].
template <class Real>
void router_forward(router_shape const& shape, input<Real> wg, input<Real> x,
                    router_activations<Real>& kept) {
  auto const [tokens, d_model, experts, top_k] = shape;
  kept.probabilities.resize(tokens * experts);
  kept.choices.resize(tokens * top_k);
  kept.weights.resize(tokens * top_k);
  auto const logits = as_matrix(std::span{kept.probabilities}, tokens, experts);
  multiply_ab(as_matrix(x, tokens, d_model), as_matrix(wg, d_model, experts), logits,
              update::write);
  for (std::size_t t = 0; t < tokens; ++t) {
    auto const row = logits.row(t);
    auto const choices = std::span{kept.choices}.subspan(t * top_k, top_k);
    auto const weights = std::span{kept.weights}.subspan(t * top_k, top_k);
    detail::pick_largest(std::span<Real const>{row}, choices);
    softmax(row);
    auto total = Real{0};
    for (auto const e : choices) total += row[static_cast<std::size_t>(e)];
    for (std::size_t i = 0; i < top_k; ++i)
      weights[i] = row[static_cast<std::size_t>(choices[i])] / total;
  }
}

/// Adds to dx [tokens, d_model] and d_wg [d_model, experts], from d_weights [tokens, top_k].
template <class Real>
void router_backward(router_shape const& shape, input<Real> wg, input<Real> x,
                     input<Real> d_weights, balance_loss const& balance,
                     router_activations<Real>& kept, output<Real> dx, output<Real> d_wg) {
  auto const [tokens, d_model, experts, top_k] = shape;
  kept.d_logits.resize(tokens * experts);
  auto const d_logits = as_matrix(std::span{kept.d_logits}, tokens, experts);
  auto const factor = balance.coefficient == 0
                          ? 0.0
                          : balance.coefficient * static_cast<double>(experts) /
                                static_cast<double>(balance.global_tokens);
  for (std::size_t t = 0; t < tokens; ++t) {
    auto const row = d_logits.row(t);
    if (factor == 0) {
      std::ranges::fill(row, Real{0});
    } else {
      for (std::size_t e = 0; e < experts; ++e)
        row[e] = static_cast<Real>(factor * balance.fractions[e]);
      softmax_backward(std::span<Real const>{kept.probabilities}.subspan(t * experts, experts),
                       row);
    }
    // The weights are the softmax of the chosen logits alone.
    auto const weights = std::span<Real const>{kept.weights}.subspan(t * top_k, top_k);
    auto const slopes = d_weights.subspan(t * top_k, top_k);
    auto const mean = dot(weights, slopes);
    for (std::size_t i = 0; i < top_k; ++i)
      row[static_cast<std::size_t>(kept.choices[t * top_k + i])] += weights[i] * (slopes[i] - mean);
  }
  multiply_atb(as_matrix(x, tokens, d_model), d_logits, as_matrix(d_wg, d_model, experts),
               update::accumulate);
  multiply_abt(d_logits, as_matrix(wg, d_model, experts), as_matrix(dx, tokens, d_model),
               update::accumulate);
}

}  // namespace moe_gpt
