// SPDX-License-Identifier: Apache-2.0
/// The discrete cosine transform, and its inverse for sparse coefficients.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/hybrid/weighted_lines.hpp"

namespace fssdp::detail {

/// The orthonormal DCT-II of a fixed length N:
/// c_j = sqrt((j ? 2 : 1) / N) sum_n x_n cos(pi (n + 1/2) j / N).
class cosine_table {
 public:
  explicit cosine_table(std::size_t length)
      : length_{length}, stride_{whole_lanes(length)}, values_(length * stride_) {
    for (std::size_t j = 0; j < length; ++j)
      for (std::size_t n = 0; n < length; ++n) {
        auto const angle = std::numbers::pi * (static_cast<double>(n) + 0.5) *
                           static_cast<double>(j) / static_cast<double>(length);
        auto const scale = std::sqrt((j == 0 ? 1.0 : 2.0) / static_cast<double>(length));
        values_[j * stride_ + n] = static_cast<float>(scale * std::cos(angle));
      }
  }
  /// The contribution of a coefficient of 1 to each element; padded with zeros to whole lanes.
  [[nodiscard]] std::span<float const> elements_of(std::size_t coefficient) const {
    return {values_.data() + coefficient * stride_, stride_};
  }

  /// Transforms `lanes` runs together. Element n of run l is x[n * lanes + l]; coefficients have
  /// the same order. Overwrites x.
  ///
  /// The even coefficients of a run are those of the sums of elements at mirrored positions, which
  /// are half as many; the odd ones depend only on the differences, by the first half of the table.
  /// This is repeated while the length is even.
  /// @cost for length N = 2^k about N / 3 multiplications per element
  void transform(std::span<float> x, std::span<float> coefficients) const {
    auto step = std::size_t{1};
    auto length = length_;
    for (; length % 2 == 0; step *= 2, length /= 2) {
      auto const half = length / 2;
      for (std::size_t n = 0; n < half; ++n) fold(&x[n * lanes], &x[(length - 1 - n) * lanes]);
      for (auto j = step; j < length_; j += 2 * step)  // differences are in reverse order
        multiply(elements_of(j).first(half).rbegin(), &x[half * lanes], half,
                 &coefficients[j * lanes]);
    }
    for (std::size_t j = 0; j < length_; j += step)
      multiply(elements_of(j).begin(), x.data(), length, &coefficients[j * lanes]);
  }

 private:
  template <class Weights>
  static void multiply(Weights weights, float const* x, std::size_t length, float* to) {
    auto const sum = add_lines(
        lane_array{}, length,
        [&](std::size_t i) { return weights[static_cast<std::ptrdiff_t>(i)]; },
        [&](std::size_t i) { return x + i * lanes; });
    std::ranges::copy(sum, to);
  }
  /// Replaces the first by the sum, the second by the difference.
  static void fold(float* first, float* second) {
    auto sums = lane_array{};
    auto differences = lane_array{};
    for (std::size_t l = 0; l < lanes; ++l) {
      sums[l] = first[l] + second[l];
      differences[l] = first[l] - second[l];
    }
    std::ranges::copy(sums, first);
    std::ranges::copy(differences, second);
  }

  std::size_t length_;
  std::size_t stride_;
  std::vector<float> values_;  // [coefficients, elements]
};

}  // namespace fssdp::detail
