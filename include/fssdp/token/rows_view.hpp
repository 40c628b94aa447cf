// SPDX-License-Identifier: Apache-2.0
/// Rows of equal width: hidden states of tokens.
#pragma once

#include <cstddef>
#include <span>

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

/// The memory of rows, or of a list with one number per row, without its type.
struct row_memory {
  std::byte const* data;
  std::size_t count;
  std::size_t width;
  std::size_t element_bytes;

  template <class T>
  row_memory(rows_view<T> const& rows)
      : data{reinterpret_cast<std::byte const*>(rows.data)},
        count{rows.count},
        width{rows.width},
        element_bytes{sizeof(T)} {}
  template <class T>
  row_memory(std::span<T> numbers) : row_memory{rows_view<T>{numbers.data(), numbers.size(), 1}} {}
  row_memory(void const* rows, std::size_t of, std::size_t elements, std::size_t bytes)
      : data{static_cast<std::byte const*>(rows)},
        count{of},
        width{elements},
        element_bytes{bytes} {}

  [[nodiscard]] std::span<std::byte const> bytes() const {
    return {data, count * width * element_bytes};
  }
};

/// @throws argument_error unless rows have this shape, and memory of a size that can be counted
void check_rows(char const* caller, char const* name, row_memory const& rows, std::size_t count,
                std::size_t width);

/// @throws argument_error if the written rows share memory with the others
void check_apart(char const* caller, char const* name, row_memory const& read,
                 char const* other_name, row_memory const& written);

/// @throws argument_error unless inputs and outputs of unpermute_backward fit together
void check_backward(std::size_t rows_count, std::size_t tokens, row_memory const& weights,
                    row_memory const& rows, row_memory const& d_tokens, row_memory const& d_rows,
                    row_memory const& d_weights);

}  // namespace detail
}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/token/rows_view_inl.hpp"
#endif
