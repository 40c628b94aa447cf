// SPDX-License-Identifier: Apache-2.0
/// Rows of equal width, one behind the other: hidden states of tokens.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "fssdp/core/error.hpp"

namespace fssdp {

/// A view [count, width].
template <class T>
struct rows_view {
  T* data = nullptr;
  std::size_t count = 0;
  std::size_t width = 0;

  [[nodiscard]] constexpr std::span<T> operator[](std::size_t row) const {
    return {data + row * width, width};
  }
  /// The elements of some consecutive rows.
  [[nodiscard]] constexpr std::span<T> elements(std::size_t first, std::size_t rows) const {
    return {data + first * width, rows * width};
  }
};

namespace detail {

template <class T>
void check_rows(char const* verb, char const* name, rows_view<T> const& rows, std::size_t count,
                std::size_t width) {
  require(rows.count == count && rows.width == width, verb, ": ", name, " is [", rows.count, ", ",
          rows.width, "]; expected [", count, ", ", width, "]");
}

}  // namespace detail
}  // namespace fssdp
