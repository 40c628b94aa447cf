// SPDX-License-Identifier: Apache-2.0
/// Rows of equal width, one behind the other: hidden states of tokens.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <type_traits>

#include "fssdp/core/error.hpp"
#include "fssdp/memory/expert_tensor.hpp"

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

/// The memory of rows, or of one number for each row, without its type.
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

/// @throws argument_error unless the rows have this shape, and memory behind them that can be counted
inline void check_rows(char const* caller, char const* name, row_memory const& rows,
                       std::size_t count, std::size_t width) {
  require(rows.count == count && rows.width == width, caller, ": ", name, " is [", rows.count, ", ",
          rows.width, "]; expected [", count, ", ", width, "]");
  if (count == 0 || width == 0) return;
  auto const most = std::numeric_limits<std::size_t>::max() / 2 / rows.element_bytes;
  require(width <= most / count, caller, ": ", name, " is [", count, ", ", width,
          "]; expected at most ", most, " elements in all");
  require(rows.data != nullptr, caller, ": ", name, " is null; expected memory for [", count, ", ",
          width, "]");
}

/// @throws argument_error if what is written shares memory with what is read
inline void check_apart(char const* caller, char const* name, row_memory const& read,
                        char const* other_name, row_memory const& written) {
  require(!overlap(read.bytes(), written.bytes()), caller, ": ", name, " and ", other_name,
          " share memory; expected disjoint rows");
}

/// @throws argument_error unless everything fits that the backward of unpermute reads and writes
inline void check_backward(std::size_t rows_count, std::size_t tokens, row_memory const& weights,
                           row_memory const& rows, row_memory const& d_tokens,
                           row_memory const& d_rows, row_memory const& d_weights) {
  constexpr auto caller = "unpermute_backward";
  require(weights.count == rows_count && d_weights.count == rows_count, caller, ": ", weights.count,
          " weights and ", d_weights.count, " of their gradients; expected ", rows_count,
          " of each");
  check_rows(caller, "rows", rows, rows_count, rows.width);
  check_rows(caller, "d_tokens", d_tokens, tokens, rows.width);
  check_rows(caller, "d_rows", d_rows, rows_count, rows.width);
  check_apart(caller, "rows", rows, "d_rows", d_rows);
  check_apart(caller, "d_tokens", d_tokens, "d_rows", d_rows);
  check_apart(caller, "weights", weights, "d_rows", d_rows);
  check_apart(caller, "rows", rows, "d_weights", d_weights);
  check_apart(caller, "d_tokens", d_tokens, "d_weights", d_weights);
  check_apart(caller, "weights", weights, "d_weights", d_weights);
  check_apart(caller, "d_rows", d_rows, "d_weights", d_weights);
}

}  // namespace detail
}  // namespace fssdp
