// SPDX-License-Identifier: Apache-2.0
/// The cosine transform of runs, and its inverse where few coefficients are not 0.
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

/// The orthonormal DCT-II of a length:
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
  /// What a coefficient adds to each element, if it is 1: filled up with zeros to whole lanes.
  [[nodiscard]] std::span<float const> elements_of(std::size_t coefficient) const {
    return {values_.data() + coefficient * stride_, stride_};
  }

  /// The coefficients of `lanes` runs at once. Element n of run l is x[n * lanes + l], and so are
  /// the coefficients. Overwrites x.
  ///
  /// The even coefficients of a run are those of the sums of elements that mirror each other, which
  /// are half as many; the odd ones depend on the differences alone, by the first half of the
  /// table. So this is done again and again, as long as the length is even.
  /// @cost of length N = 2^k about N / 3 multiplications per element
  void transform(std::span<float> x, std::span<float> coefficients) const {
    auto step = std::size_t{1};
    auto length = length_;
    for (; length % 2 == 0; step *= 2, length /= 2) {
      auto const half = length / 2;
      for (std::size_t n = 0; n < half; ++n) fold(&x[n * lanes], &x[(length - 1 - n) * lanes]);
      for (auto j = step; j < length_; j += 2 * step)  // differences lie in reverse order
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
  /// The first becomes the sum, the second the difference.
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
  std::vector<float> values_;  // [coefficient, element]
};

}  // namespace fssdp::detail
