// SPDX-License-Identifier: Apache-2.0
/// Matrix products on row-major views, by the BLAS that there is or a loop of our own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <type_traits>

#include "blas.hpp"
#include "matrix.hpp"
#include "own_loop.hpp"

namespace moe_gpt {

namespace detail {

inline void require_shapes(bool agree) {
  if (!agree) throw std::invalid_argument{"the shapes of a matrix product do not agree"};
}

/// c = op(a) * op(b), or added to c; `inner` is the dimension that is summed over.
template <class Real>
void multiply(form form_a, matrix<Real const> a, form form_b, matrix<Real const> b,
              std::size_t inner, matrix<Real> c, update how) {
  if (c.rows == 0 || c.columns == 0) return;
  auto const is_empty = inner == 0;  // an empty sum, which not every BLAS accepts
  if (how == update::write && (is_empty || !has_blas))
    for (std::size_t i = 0; i < c.rows; ++i) std::ranges::fill(c.row(i), Real{0});
  if (is_empty) return;
  if constexpr (has_blas) {
    multiply_by_blas(form_a, a, form_b, b, inner, c, how);
  } else {
    auto const as_factor = [](form which, matrix<Real const> m) {
      return which == form::plain ? factor<Real>{m.data, m.stride, 1}
                                  : factor<Real>{m.data, 1, m.stride};
    };
    multiply_by_own_loop(as_factor(form_a, a), as_factor(form_b, b), inner, c);
  }
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

}  // namespace moe_gpt
