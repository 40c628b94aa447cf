// SPDX-License-Identifier: Apache-2.0
/// Row-major views of memory as matrices.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

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

}  // namespace moe_gpt
