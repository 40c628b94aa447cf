// SPDX-License-Identifier: Apache-2.0
/// A gradient matrix as a product of two thin ones.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "fssdp/core/error.hpp"
#include "fssdp/hybrid/compressor.hpp"
#include "fssdp/hybrid/counter_random.hpp"
#include "fssdp/hybrid/full_compressor.hpp"

namespace fssdp {

/// One step of a power iteration for M [rows, columns], warm from the step before:
///
///     q = orthonormal(Q)       P = average over groups of M q
///     p = orthonormal(P)       Q = average over groups of M^T p       M becomes p Q^T
///
/// Two rounds, which are sums: 4 rank (rows + columns) bytes. The residual that goes with it is M
/// minus p times this group's own Q, so that it holds no differences between groups. Q starts with
/// draws in [-1, 1) from the shared key; a column that has become zero is drawn again. Units of one
/// row, and those of which this would send half or more (`least_saving`), are sent in full.
/// @cost 2 rank multiplications per element in each direction
/// (PowerSGD, arXiv 1905.13727)
struct low_rank_compressor {
  [[nodiscard]] combination combines(int /*round*/) const { return combination::sum; }
  std::size_t rank = 4;
  /// A unit is sent in full unless its payloads are smaller than it by more than this factor; 0: none
  /// is.
  std::size_t least_saving = 2;

  [[nodiscard]] std::string description() const {
    return detail::text("low_rank_compressor, rank ", rank, ", saving ", least_saving);
  }
  [[nodiscard]] int rounds() const { return 2; }
  [[nodiscard]] std::size_t payload_bytes(unit_shape shape, int round) const {
    detail::require(rank >= 1, "low_rank_compressor: rank 0; expected 1 or more");
    if (!is_reduced(shape)) return round == 0 ? full_compressor{}.payload_bytes(shape, 0) : 0;
    return sizeof(float) * rank * (round == 0 ? shape.rows : shape.columns);
  }
  [[nodiscard]] std::size_t state_elements(unit_shape shape) const {
    return is_reduced(shape) ? rank * shape.columns : 0;
  }
  [[nodiscard]] std::size_t scratch_elements(unit_shape shape) const {
    return is_reduced(shape) ? rank * (shape.rows + shape.columns) : 0;
  }
  [[nodiscard]] bool needs_residual(unit_shape shape) const { return is_reduced(shape); }

  void encode(compression_unit const& unit, std::span<float const> input,
              std::span<combined_payload const> before, std::span<std::byte> payload) const {
    auto const [rows, columns] = unit.shape;
    if (!is_reduced(unit.shape)) {
      if (before.empty()) detail::write_floats(input, payload);
      return;
    }
    auto const p = unit.scratch.first(rank * rows);
    auto const q = unit.scratch.subspan(rank * rows, rank * columns);
    if (before.empty()) {
      begin_with(unit, q);
      orthonormalize(q, columns);
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t k = 0; k < rank; ++k) {
          auto sum = 0.0F;
          for (std::size_t c = 0; c < columns; ++c) sum += input[r * columns + c] * q[c * rank + k];
          detail::put_float(payload, r * rank + k, sum);
        }
    } else {
      read_p(before[0], p, rows);
      std::ranges::fill(q, 0.0F);
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < columns; ++c)
          for (std::size_t k = 0; k < rank; ++k)
            q[c * rank + k] += input[r * columns + c] * p[r * rank + k];
      detail::write_floats(q, payload);
    }
  }
  void own(compression_unit const& unit, std::span<combined_payload const> rounds,
           std::span<float> output) const {
    if (!is_reduced(unit.shape)) return full_compressor{}.own(unit, rounds, output);
    multiply(unit, rounds, rounds[1].mine, 1, output);
  }
  void decode(compression_unit const& unit, std::span<combined_payload const> rounds,
              std::span<float> output) const {
    if (!is_reduced(unit.shape)) return full_compressor{}.decode(unit, rounds, output);
    auto const share = 1.0F / static_cast<float>(rounds[1].groups);
    multiply(unit, rounds, rounds[1].all, share, output);
    for (std::size_t i = 0; i < unit.state.size(); ++i)
      unit.state[i] = detail::float_at(rounds[1].all, i) * share;
  }

 private:
  [[nodiscard]] bool is_reduced(unit_shape shape) const {
    return shape.rows > 1 && least_saving * rank * (shape.rows + shape.columns) < shape.elements();
  }
  /// Q of the step before; columns of zeros are drawn.
  void begin_with(compression_unit const& unit, std::span<float> q) const {
    auto const draw = counter_random{unit.shared_key};
    std::ranges::copy(unit.state, q.begin());
    for (std::size_t k = 0; k < rank; ++k) {
      auto is_zero = true;
      for (auto i = k; i < q.size(); i += rank) is_zero = is_zero && q[i] == 0;
      if (is_zero)
        for (auto i = k; i < q.size(); i += rank) q[i] = 2 * draw[i] - 1;
    }
  }
  /// Gram-Schmidt, column after column of [length, rank], twice, so that rounding leaves columns
  /// orthogonal. A column that lies in those before it, but for rounding, becomes 0: matrices of
  /// lower rank, as of experts with few tokens, are not counted twice.
  void orthonormalize(std::span<float> matrix, std::size_t length) const {
    constexpr auto least = 1e-5;  // of a column, for which rounding does not stand
    auto const dot = [&](std::size_t a, std::size_t b) {
      auto sum = 0.0;
      for (std::size_t i = 0; i < length; ++i)
        sum += double{matrix[i * rank + a]} * matrix[i * rank + b];
      return sum;
    };
    for (std::size_t k = 0; k < rank; ++k) {
      auto const whole = std::sqrt(dot(k, k));
      for (int pass = 0; pass < 2; ++pass)
        for (std::size_t j = 0; j < k; ++j) {
          auto const along = static_cast<float>(dot(j, k));
          for (std::size_t i = 0; i < length; ++i)
            matrix[i * rank + k] -= along * matrix[i * rank + j];
        }
      auto const norm = std::sqrt(dot(k, k));
      auto const scale = norm <= least * whole ? 0.0 : 1 / norm;  // of subnormals no float
      for (std::size_t i = 0; i < length; ++i)
        matrix[i * rank + k] = static_cast<float>(scale * matrix[i * rank + k]);
    }
  }
  void read_p(combined_payload const& sums, std::span<float> p, std::size_t rows) const {
    auto const share = 1.0F / static_cast<float>(sums.groups);
    for (std::size_t i = 0; i < p.size(); ++i) p[i] = detail::float_at(sums.all, i) * share;
    orthonormalize(p, rows);
  }
  /// output = p (share * Q)^T.
  void multiply(compression_unit const& unit, std::span<combined_payload const> rounds,
                std::span<std::byte const> thin, float share, std::span<float> output) const {
    auto const [rows, columns] = unit.shape;
    auto const p = unit.scratch.first(rank * rows);
    auto const q = unit.scratch.subspan(rank * rows, rank * columns);
    read_p(rounds[0], p, rows);
    for (std::size_t i = 0; i < q.size(); ++i) q[i] = detail::float_at(thin, i) * share;
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c) {
        auto sum = 0.0F;
        for (std::size_t k = 0; k < rank; ++k) sum += p[r * rank + k] * q[c * rank + k];
        output[r * columns + c] = sum;
      }
  }
};

static_assert(compressor<low_rank_compressor>);

}  // namespace fssdp
