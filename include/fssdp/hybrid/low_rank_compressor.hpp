// SPDX-License-Identifier: Apache-2.0
/// Compresses a gradient matrix as a product of two thin ones.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>

#include "fssdp/core/error.hpp"
#include "fssdp/hybrid/compressor.hpp"
#include "fssdp/hybrid/counter_random.hpp"
#include "fssdp/hybrid/fixed_parts.hpp"
#include "fssdp/hybrid/full_compressor.hpp"
#include "fssdp/hybrid/weighted_lines.hpp"

namespace fssdp {

/// One step of a power iteration for M [rows, columns], starting from the previous step:
///
///     q = orthonormal(Q)       P = average over groups of M q
///     p = orthonormal(P)       Q = average over groups of M^T p       M becomes p Q^T
///
/// Two exchanges, which are sums: 4 rank (rows + columns) bytes. The residual is M minus p times
/// this group's own Q, so it does not include differences between groups. Q is initialized with
/// random numbers in [-1, 1) from the shared key, and so is a column that has become zero. Units of
/// one row, and those for which this saves too little (`least_saving`), are sent in full.
/// @cost 2 rank multiplications per element in each direction
/// (PowerSGD, arXiv 1905.13727)
struct low_rank_compressor {
  [[nodiscard]] combination combines(int /*round*/) const { return combination::sum; }
  std::size_t rank = 4;
  /// A unit is compressed only if its payloads are smaller by more than this factor; 0: always.
  std::size_t least_saving = 2;

  [[nodiscard]] std::string description() const {
    return detail::text("low_rank_compressor, rank ", rank, ", saving ", least_saving);
  }
  [[nodiscard]] int rounds() const { return 2; }
  [[nodiscard]] std::size_t payload_bytes(unit_shape shape, int round) const {
    detail::require(rank >= 1, "low_rank_compressor: rank is 0; expected 1 or more");
    if (!is_reduced(shape)) return round == 0 ? full_compressor{}.payload_bytes(shape, 0) : 0;
    return sizeof(float) * rank * (round == 0 ? shape.rows : shape.columns);
  }
  [[nodiscard]] std::size_t state_elements(unit_shape shape) const {
    return is_reduced(shape) ? rank * shape.columns : 0;
  }
  [[nodiscard]] std::size_t scratch_elements(unit_shape shape) const {
    if (!is_reduced(shape)) return 0;
    return rank * (whole_parts(shape.rows) + whole_parts(shape.columns));
  }
  [[nodiscard]] bool needs_residual(unit_shape shape) const { return is_reduced(shape); }

  void encode(compression_unit const& unit, std::span<float const> input,
              std::span<combined_payload const> before, std::span<std::byte> payload) const {
    if (!is_reduced(unit.shape)) {
      if (before.empty()) detail::write_floats(input, payload);
      return;
    }
    auto const [p, q] = thin_matrices(unit);
    if (before.empty()) {
      begin_with(unit, q);
      orthonormalize(q);
      multiply_by_q(input, unit.shape, q, p);
      write(p, payload);
    } else {
      read_p(before[0], p);
      multiply_by_p(input, unit.shape, p, q);
      write(q, payload);
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
  static constexpr auto lanes = detail::lanes;
  static constexpr auto tile_columns = detail::part_elements;
  [[nodiscard]] static std::size_t whole_parts(std::size_t length) {
    return (length + detail::part_elements - 1) / detail::part_elements * detail::part_elements;
  }
  /// `rank` columns, each padded with zeros. Payloads and the state have the same numbers row by
  /// row.
  struct thin_matrix {
    std::span<float> elements;
    std::size_t length;

    [[nodiscard]] std::size_t stride() const { return whole_parts(length); }
    [[nodiscard]] float* column(std::size_t k) const { return elements.data() + k * stride(); }
  };
  struct thin_pair {
    thin_matrix p;
    thin_matrix q;
  };
  [[nodiscard]] thin_pair thin_matrices(compression_unit const& unit) const {
    auto const [rows, columns] = unit.shape;
    auto const of_p = rank * whole_parts(rows);
    auto const of_q = rank * whole_parts(columns);
    return {{unit.scratch.first(of_p), rows}, {unit.scratch.subspan(of_p, of_q), columns}};
  }
  void write(thin_matrix const& from, std::span<std::byte> payload) const {
    for (std::size_t i = 0; i < from.length; ++i)
      for (std::size_t k = 0; k < rank; ++k)
        detail::put_float(payload, i * rank + k, from.column(k)[i]);
  }
  void read(std::span<std::byte const> payload, float share, thin_matrix const& to) const {
    std::ranges::fill(to.elements, 0.0F);
    for (std::size_t i = 0; i < to.length; ++i)
      for (std::size_t k = 0; k < rank; ++k)
        to.column(k)[i] = detail::float_at(payload, i * rank + k) * share;
  }

  /// Reads Q of the previous step; columns of zeros become random.
  void begin_with(compression_unit const& unit, thin_matrix const& q) const {
    auto const draw = counter_random{unit.shared_key};
    read(std::as_bytes(unit.state), 1, q);
    for (std::size_t k = 0; k < rank; ++k) {
      auto const column = std::span{q.column(k), q.length};
      if (std::ranges::any_of(column, [](float x) { return x != 0; })) continue;
      for (std::size_t i = 0; i < q.length; ++i) column[i] = 2 * draw[i * rank + k] - 1;
    }
  }
  [[nodiscard]] static double dot(float const* a, float const* b, std::size_t length) {
    auto sums = std::array<double, lanes>{};
    for (std::size_t i = 0; i < length; i += lanes)
      for (std::size_t l = 0; l < lanes; ++l) sums[l] += double{a[i + l]} * double{b[i + l]};
    return std::accumulate(sums.begin(), sums.end(), 0.0);
  }
  /// Gram-Schmidt by columns, applied twice, so that columns are orthogonal in spite of rounding. A
  /// column that depends on those before it, up to rounding, becomes 0, so that for matrices of
  /// lower rank (experts with few tokens) no direction is counted twice.
  void orthonormalize(thin_matrix const& matrix) const {
    constexpr auto least = 1e-5;  // relative norm above rounding errors
    auto const length = matrix.stride();
    for (std::size_t k = 0; k < rank; ++k) {
      auto* const column = matrix.column(k);
      auto const whole = std::sqrt(dot(column, column, length));
      for (int pass = 0; pass < 2; ++pass)
        for (std::size_t j = 0; j < k; ++j) {
          auto const* const before = matrix.column(j);
          auto const along = static_cast<float>(dot(before, column, length));
          for (std::size_t i = 0; i < length; i += lanes)
            add_to(
                column + i, 1, [&](std::size_t) { return -along; },
                [&](std::size_t) { return before + i; });
        }
      auto const norm = std::sqrt(dot(column, column, length));
      auto const scale = norm <= least * whole ? 0.0 : 1 / norm;  // double: norm may be subnormal
      for (std::size_t i = 0; i < length; ++i) column[i] = static_cast<float>(scale * column[i]);
    }
  }
  template <class WeightOf, class LineOf>
  static void add_to(float* to, std::size_t lines, WeightOf weight, LineOf line) {
    auto sum = detail::lane_array{};
    std::copy_n(to, lanes, sum.begin());
    std::ranges::copy(detail::add_lines(sum, lines, weight, line), to);
  }

  void read_p(combined_payload const& sums, thin_matrix const& p) const {
    read(sums.all, 1.0F / static_cast<float>(sums.groups), p);
    orthonormalize(p);
  }
  /// p = M q, by blocks of rows and columns of M.
  void multiply_by_q(std::span<float const> input, unit_shape shape, thin_matrix const& q,
                     thin_matrix const& p) const {
    std::ranges::fill(p.elements, 0.0F);
    for (std::size_t top = 0; top < shape.rows; top += lanes)
      for (std::size_t left = 0; left < shape.columns; left += tile_columns) {
        auto const width = std::min(tile_columns, shape.columns - left);
        auto tile = std::array<float, lanes * tile_columns>{};
        detail::load_lines(tile, width, [&](std::size_t l) {
          return top + l < shape.rows ? input.subspan((top + l) * shape.columns + left, width)
                                      : std::span<float const>{};
        });
        for (std::size_t k = 0; k < rank; ++k)
          add_to(
              p.column(k) + top, width, [&](std::size_t i) { return q.column(k)[left + i]; },
              [&](std::size_t i) { return tile.data() + i * lanes; });
      }
  }
  /// q = M^T p, in the same way.
  void multiply_by_p(std::span<float const> input, unit_shape shape, thin_matrix const& p,
                     thin_matrix const& q) const {
    std::ranges::fill(q.elements, 0.0F);
    for (std::size_t top = 0; top < shape.rows; top += lanes) {
      auto const height = std::min(lanes, shape.rows - top);
      for (std::size_t left = 0; left < shape.columns; left += lanes) {
        auto const width = std::min(lanes, shape.columns - left);
        auto const* first = input.data() + top * shape.columns + left;
        auto stride = shape.columns;
        auto tile = std::array<float, lanes * lanes>{};
        if (width < lanes) {  // padding
          for (std::size_t i = 0; i < height; ++i)
            std::copy_n(first + i * stride, width, tile.data() + i * lanes);
          first = tile.data();
          stride = lanes;
        }
        for (std::size_t k = 0; k < rank; ++k)
          add_to(
              q.column(k) + left, height, [&](std::size_t i) { return p.column(k)[top + i]; },
              [&](std::size_t i) { return first + i * stride; });
      }
    }
  }
  /// output = p (share * Q)^T.
  void multiply(compression_unit const& unit, std::span<combined_payload const> rounds,
                std::span<std::byte const> thin, float share, std::span<float> output) const {
    auto const columns = unit.shape.columns;
    auto const [p, q] = thin_matrices(unit);
    auto const& weights = p;  // structured bindings cannot be captured by all compilers
    auto const& lines = q;
    read_p(rounds[0], p);
    read(thin, share, q);
    for (std::size_t r = 0; r < unit.shape.rows; ++r)
      for (std::size_t c = 0; c < columns; c += detail::part_elements) {
        auto const sum = detail::add_lines(
            detail::float_part{}, rank, [&](std::size_t k) { return weights.column(k)[r]; },
            [&](std::size_t k) { return lines.column(k) + c; });
        detail::put_part(sum, output.subspan(r * columns, columns), c);
      }
  }
};

static_assert(compressor<low_rank_compressor>);

}  // namespace fssdp
