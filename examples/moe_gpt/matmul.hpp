// SPDX-License-Identifier: Apache-2.0
/// Matrix products on row-major views, through CBLAS when MOE_GPT_CBLAS is 1, by a loop otherwise.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

#if defined(MOE_GPT_CBLAS) && MOE_GPT_CBLAS
#include <cblas.h>
#endif

namespace moe_gpt {

/// A row-major view: element (i, j) is data[i * stride + j].
template <class Real>
struct matrix {
  Real* data = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t stride = columns;

  [[nodiscard]] constexpr std::span<Real> row(std::size_t i) const {
    return {data + i * stride, columns};
  }
  constexpr operator matrix<Real const>() const requires(!std::is_const_v<Real>) {
    return {data, rows, columns, stride};
  }
};

/// The view of a span that holds rows x columns elements.
template <class Real>
[[nodiscard]] matrix<Real> as_matrix(std::span<Real> elements, std::size_t rows,
                                     std::size_t columns) {
  if (elements.size() != rows * columns)
    throw std::invalid_argument{"a matrix of " + std::to_string(rows) + " x " +
                                std::to_string(columns) + " cannot be a view of " +
                                std::to_string(elements.size()) + " elements"};
  return {elements.data(), rows, columns, columns};
}

/// Whether a product replaces what the result holds or is added to it.
enum class update { write, accumulate };

namespace detail {

inline void require_shapes(bool agree) {
  if (!agree) throw std::invalid_argument{"the shapes of a matrix product do not agree"};
}

/// A factor as the product reads it: element (i, j) is data[i * row_step + j * column_step].
template <class Real>
struct factor {
  Real const* data;
  std::size_t row_step;
  std::size_t column_step;
};

/// c [Rows, columns] += a * packed [inner, 2 vectors], for a tile whose sums stay in registers. The
/// vectors are spelled out because g++ does not keep the sums of a plain loop there.
template <std::size_t Rows, class Real>
void multiply_tile(factor<Real> a, Real const* packed, std::size_t inner, Real* c,
                   std::size_t stride, std::size_t columns) {
  constexpr std::size_t lanes = 16 / sizeof(Real);
  typedef Real lane_vector __attribute__((vector_size(16)));
  lane_vector sums[Rows][2] = {};
  for (std::size_t p = 0; p < inner; ++p) {
    lane_vector row[2];
    std::memcpy(row, packed + p * 2 * lanes, sizeof(row));
    for (std::size_t i = 0; i < Rows; ++i) {
      auto const scale = a.data[i * a.row_step + p * a.column_step];
      sums[i][0] += scale * row[0];
      sums[i][1] += scale * row[1];
    }
  }
  for (std::size_t i = 0; i < Rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) c[i * stride + j] += sums[i][j / lanes][j % lanes];
}

/// c += a * b by panels of b that are packed on the stack. Used where there is no CBLAS.
template <class Real>
void multiply_plain(factor<Real> a, factor<Real> b, std::size_t inner, matrix<Real> c) {
  constexpr std::size_t width = 32 / sizeof(Real);
  constexpr std::size_t height = 6;
  constexpr std::size_t depth = 256;
  alignas(64) Real packed[depth * width];
  for (std::size_t from = 0; from < inner; from += depth) {
    auto const deep = std::min(depth, inner - from);
    for (std::size_t column = 0; column < c.columns; column += width) {
      auto const wide = std::min(width, c.columns - column);
      for (std::size_t p = 0; p < deep; ++p)
        for (std::size_t j = 0; j < width; ++j)
          packed[p * width + j] =
              j < wide ? b.data[(from + p) * b.row_step + (column + j) * b.column_step] : Real{0};
      auto const rows_from = [&](std::size_t row) {
        return factor<Real>{a.data + row * a.row_step + from * a.column_step, a.row_step,
                            a.column_step};
      };
      std::size_t row = 0;
      for (; row + height <= c.rows; row += height)
        multiply_tile<height>(rows_from(row), packed, deep, c.data + row * c.stride + column,
                              c.stride, wide);
      for (; row < c.rows; ++row)
        multiply_tile<1>(rows_from(row), packed, deep, c.data + row * c.stride + column, c.stride,
                         wide);
    }
  }
}

enum class form { plain, transposed };

/// c = op(a) * op(b), or added to c; `inner` is the dimension that is summed over.
template <class Real>
void multiply(form form_a, matrix<Real const> a, form form_b, matrix<Real const> b,
              std::size_t inner, matrix<Real> c, update how) {
  if (c.rows == 0 || c.columns == 0) return;
  if (how == update::write && inner == 0)
    for (std::size_t i = 0; i < c.rows; ++i) std::fill_n(c.data + i * c.stride, c.columns, Real{0});
  if (inner == 0) return;
#if defined(MOE_GPT_CBLAS) && MOE_GPT_CBLAS
  auto const transpose = [](form which) {
    return which == form::plain ? CblasNoTrans : CblasTrans;
  };
  auto const to_int = [](std::size_t n) { return static_cast<int>(n); };
  auto const keep = how == update::accumulate ? Real{1} : Real{0};
  if constexpr (std::is_same_v<Real, float>)
    cblas_sgemm(CblasRowMajor, transpose(form_a), transpose(form_b), to_int(c.rows),
                to_int(c.columns), to_int(inner), 1, a.data, to_int(a.stride), b.data,
                to_int(b.stride), keep, c.data, to_int(c.stride));
  else
    cblas_dgemm(CblasRowMajor, transpose(form_a), transpose(form_b), to_int(c.rows),
                to_int(c.columns), to_int(inner), 1, a.data, to_int(a.stride), b.data,
                to_int(b.stride), keep, c.data, to_int(c.stride));
#else
  auto const as_factor = [](form which, matrix<Real const> m) {
    return which == form::plain ? factor<Real>{m.data, m.stride, 1}
                                : factor<Real>{m.data, 1, m.stride};
  };
  if (how == update::write)
    for (std::size_t i = 0; i < c.rows; ++i) std::fill_n(c.data + i * c.stride, c.columns, Real{0});
  multiply_plain(as_factor(form_a, a), as_factor(form_b, b), inner, c);
#endif
}

}  // namespace detail

/// c [m, n] = a [m, k] * b [k, n], or added to c.
template <class Real>
void multiply_ab(std::type_identity_t<matrix<Real const>> a,
                 std::type_identity_t<matrix<Real const>> b, matrix<Real> c, update how) {
  detail::require_shapes(a.rows == c.rows && b.columns == c.columns && a.columns == b.rows);
  detail::multiply<Real>(detail::form::plain, a, detail::form::plain, b, a.columns, c, how);
}

/// c [m, n] = a [m, k] * transpose of b [n, k], or added to c.
template <class Real>
void multiply_abt(std::type_identity_t<matrix<Real const>> a,
                  std::type_identity_t<matrix<Real const>> b, matrix<Real> c, update how) {
  detail::require_shapes(a.rows == c.rows && b.rows == c.columns && a.columns == b.columns);
  detail::multiply<Real>(detail::form::plain, a, detail::form::transposed, b, a.columns, c, how);
}

/// c [m, n] = transpose of a [k, m] * b [k, n], or added to c.
template <class Real>
void multiply_atb(std::type_identity_t<matrix<Real const>> a,
                  std::type_identity_t<matrix<Real const>> b, matrix<Real> c, update how) {
  detail::require_shapes(a.columns == c.rows && b.columns == c.columns && a.rows == b.rows);
  detail::multiply<Real>(detail::form::transposed, a, detail::form::plain, b, a.rows, c, how);
}

/// Every rank is a thread, so a product inside a rank must not start more of them. Call it once,
/// before the ranks start; where the CBLAS is not OpenBLAS it does nothing.
inline void single_threaded_blas() {
#if defined(MOE_GPT_CBLAS) && MOE_GPT_CBLAS && defined(OPENBLAS_VERSION)
  openblas_set_num_threads(1);
#endif
}

}  // namespace moe_gpt
