// SPDX-License-Identifier: Apache-2.0
/// The matrix product where there is no fast BLAS: a loop over tiles whose sums stay in registers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "matrix.hpp"

namespace moe_gpt::detail {

/// A factor as the product reads it: element (i, j) is data[i * row_step + j * column_step].
template <class Real>
struct factor {
  Real const* data;
  std::size_t row_step;
  std::size_t column_step;

  [[nodiscard]] factor from(std::size_t row, std::size_t column) const {
    return {data + row * row_step + column * column_step, row_step, column_step};
  }
};

/// Copies b [deep, columns] to packed [deep, Width]; what is right of the last column becomes zero.
template <std::size_t Width, class Real>
[[gnu::always_inline]] inline void pack_panel(factor<Real> b, std::size_t deep, std::size_t columns,
                                              Real* packed) {
  if (columns == Width && b.column_step == 1) {
    for (std::size_t p = 0; p < deep; ++p)
      std::memcpy(packed + p * Width, b.data + p * b.row_step, Width * sizeof(Real));
    return;
  }
  for (std::size_t j = 0; j < Width; ++j)
    for (std::size_t p = 0; p < deep; ++p)
      packed[p * Width + j] = j < columns ? b.data[p * b.row_step + j * b.column_step] : Real{0};
}

/// c [Rows, columns] += a [Rows, deep] * packed [deep, 2 vectors of Bytes]. The vectors are spelled
/// out because g++ does not keep the sums of a plain loop in registers.
template <std::size_t Rows, std::size_t Bytes, class Real>
[[gnu::always_inline]] inline void multiply_tile(factor<Real> a, Real const* packed,
                                                 std::size_t deep, Real* c, std::size_t stride,
                                                 std::size_t columns) {
  constexpr std::size_t comms = Bytes / sizeof(Real);
  typedef Real lane_vector __attribute__((vector_size(Bytes)));
  lane_vector sums[Rows][2] = {};
  for (std::size_t p = 0; p < deep; ++p) {
    lane_vector row[2];
    std::memcpy(row, packed + p * 2 * comms, sizeof(row));
#pragma GCC unroll 6
    for (std::size_t i = 0; i < Rows; ++i) {
      auto const scale = a.data[i * a.row_step + p * a.column_step];
      sums[i][0] += scale * row[0];
      sums[i][1] += scale * row[1];
    }
  }
#pragma GCC unroll 6
  for (std::size_t i = 0; i < Rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) c[i * stride + j] += sums[i][j / comms][j % comms];
}

/// c += a * b, with b in panels of two vectors that are packed on the stack.
template <std::size_t Bytes, class Real>
[[gnu::always_inline]] inline void multiply_by_panels(factor<Real> a, factor<Real> b,
                                                      std::size_t inner, matrix<Real> c) {
  constexpr std::size_t width = 2 * Bytes / sizeof(Real);
  constexpr std::size_t height = 6;  // 12 of 16 registers hold sums
  constexpr std::size_t depth = 256;
  alignas(64) Real packed[depth * width];
  for (std::size_t from = 0; from < inner; from += depth) {
    auto const deep = std::min(depth, inner - from);
    for (std::size_t column = 0; column < c.columns; column += width) {
      auto const wide = std::min(width, c.columns - column);
      pack_panel<width>(b.from(from, column), deep, wide, packed);
      auto const out = [&](std::size_t row) { return c.data + row * c.stride + column; };
      std::size_t row = 0;
      for (; row + height <= c.rows; row += height)
        multiply_tile<height, Bytes>(a.from(row, from), packed, deep, out(row), c.stride, wide);
      for (; row < c.rows; ++row)
        multiply_tile<1, Bytes>(a.from(row, from), packed, deep, out(row), c.stride, wide);
    }
  }
}

/// With what every processor has.
template <class Real>
void multiply_portably(factor<Real> a, factor<Real> b, std::size_t inner, matrix<Real> c) {
  multiply_by_panels<16>(a, b, inner, c);
}

#if defined(__x86_64__)
/// @pre has_avx2()
template <class Real>
[[gnu::target("avx2,fma")]] void multiply_avx2(factor<Real> a, factor<Real> b, std::size_t inner,
                                               matrix<Real> c) {
  multiply_by_panels<32>(a, b, inner, c);
}
[[nodiscard]] inline bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
template <class Real>
void multiply_avx2(factor<Real> a, factor<Real> b, std::size_t inner, matrix<Real> c) {
  multiply_portably(a, b, inner, c);
}
[[nodiscard]] inline bool has_avx2() { return false; }
#endif

/// c += a * b; `inner` is the dimension that is summed over.
template <class Real>
void multiply_by_own_loop(factor<Real> a, factor<Real> b, std::size_t inner, matrix<Real> c) {
  if (has_avx2())
    multiply_avx2(a, b, inner, c);
  else
    multiply_portably(a, b, inner, c);
}

}  // namespace moe_gpt::detail
