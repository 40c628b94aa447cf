// SPDX-License-Identifier: Apache-2.0
/// Sums, exponentials, GELU and softmax, written so that a compiler vectorises them.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

namespace moe_gpt {

/// What a function reads, and what it writes or adds to. Neither takes part in template deduction,
/// so that a vector will do.
template <class Real>
using input = std::type_identity_t<std::span<Real const>>;
template <class Real>
using output = std::type_identity_t<std::span<Real>>;

namespace detail {

/// A sum of term(i) for i < count in a fixed order. Sixteen partial sums run side by side, because
/// a compiler may not reorder a single one.
template <class Real, class Term>
[[nodiscard]] Real sum_terms(std::size_t count, Term const& term) {
  constexpr std::size_t comms = 16;
  Real partial[comms] = {};
  auto const even = count - count % comms;
  for (std::size_t i = 0; i < even; i += comms)
    for (std::size_t comm = 0; comm < comms; ++comm) partial[comm] += term(i + comm);
  for (std::size_t comm = 0; comm < count % comms; ++comm) partial[comm] += term(even + comm);
  auto total = Real{0};
  for (auto const part : partial) total += part;
  return total;
}

}  // namespace detail

template <class Real>
[[nodiscard]] Real sum(std::span<Real const> x) {
  return detail::sum_terms<Real>(x.size(), [data = x.data()](std::size_t i) { return data[i]; });
}

template <class Real>
[[nodiscard]] Real dot(std::span<Real const> x, std::span<Real const> y) {
  return detail::sum_terms<Real>(
      x.size(), [a = x.data(), b = y.data()](std::size_t i) { return a[i] * b[i]; });
}

/// y += x.
template <class Real>
void add(input<Real> x, std::span<Real> y) {
  auto const* const from = x.data();
  auto* const to = y.data();
  for (std::size_t i = 0; i < y.size(); ++i) to[i] += from[i];
}

/// The exponential. For float a polynomial within 2e-7 of it (relative), because a call in a loop
/// keeps the loop from being vectorised; arguments are cut to [-87, 87], so that the result is a
/// normal number (NaN counts as large).
template <class Real>
[[nodiscard]] inline Real exponential(Real x) {
  if constexpr (std::is_same_v<Real, float>) {
    constexpr auto to_integer = 12582912.0F;  // 1.5 * 2^23: adding it rounds to a whole number
    // Integers are compared here: compilers do not vectorize comparisons of floats, which may trap.
    constexpr auto sign = std::numeric_limits<std::int32_t>::min();
    auto const bits = std::bit_cast<std::int32_t>(x);
    auto const size = bits & ~sign;
    constexpr auto largest = std::bit_cast<std::int32_t>(87.0F);
    auto const cut = std::bit_cast<float>((size < largest ? size : largest) | (bits & sign));
    auto const shifted = cut * 1.44269504F + to_integer;
    auto const power = shifted - to_integer;
    auto const r = (cut - power * 0.693359375F) + power * 2.12194440e-4F;
    auto y = 1.9875691500e-4F;
    y = y * r + 1.3981999507e-3F;
    y = y * r + 8.3334519073e-3F;
    y = y * r + 4.1665795894e-2F;
    y = y * r + 1.6666665459e-1F;
    y = y * r + 5.0000001201e-1F;
    y = y * r * r + r + 1.0F;
    auto const scale = (std::bit_cast<std::uint32_t>(shifted) + 127U) << 23U;
    return y * std::bit_cast<float>(scale);
  } else {
    return std::exp(x);
  }
}

/// GELU in its tanh form, as x * sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)).
template <class Real>
[[nodiscard]] inline Real gelu(Real x) {
  constexpr auto slope = Real(1.5957691216057308);
  constexpr auto cubic = Real(0.044715);
  return x / (1 + exponential(-slope * (x + cubic * x * x * x)));
}

/// The derivative of gelu.
template <class Real>
[[nodiscard]] inline Real gelu_slope(Real x) {
  constexpr auto slope = Real(1.5957691216057308);
  constexpr auto cubic = Real(0.044715);
  auto const s = 1 / (1 + exponential(-slope * (x + cubic * x * x * x)));
  return s + x * s * (1 - s) * slope * (1 + 3 * cubic * x * x);
}

/// Turns a row of logits into probabilities, in place.
template <class Real>
void softmax(std::span<Real> row) {
  auto const largest = *std::max_element(row.begin(), row.end());
  auto* const p = row.data();
  for (std::size_t i = 0; i < row.size(); ++i) p[i] = exponential(p[i] - largest);
  auto const scale = 1 / sum(std::span<Real const>{row});
  for (std::size_t i = 0; i < row.size(); ++i) p[i] *= scale;
}

/// Turns the gradient of softmax's write_mode into scale times that of its input, in place.
template <class Real>
void softmax_backward(std::span<Real const> probabilities, std::span<Real> gradient,
                      std::type_identity_t<Real> scale = 1) {
  auto const mean = dot(probabilities, std::span<Real const>{gradient});
  auto const* const p = probabilities.data();
  auto* const g = gradient.data();
  for (std::size_t i = 0; i < gradient.size(); ++i) g[i] = scale * p[i] * (g[i] - mean);
}

}  // namespace moe_gpt
