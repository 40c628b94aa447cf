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

/// @throws argument_error unless the rows have this shape, and memory behind them that can be counted
template <class T>
void check_rows(char const* caller, char const* name, rows_view<T> const& rows, std::size_t count,
                std::size_t width) {
  require(rows.count == count && rows.width == width, caller, ": ", name, " is [", rows.count, ", ",
          rows.width, "]; expected [", count, ", ", width, "]");
  if (count == 0 || width == 0) return;
  constexpr auto most = std::numeric_limits<std::size_t>::max() / 2 / sizeof(T);
  require(width <= most / count, caller, ": ", name, " is [", count, ", ", width,
          "]; expected at most ", most, " elements in all");
  require(rows.data != nullptr, caller, ": ", name, " is null; expected memory for [", count, ", ",
          width, "]");
}

template <class T>
[[nodiscard]] std::span<std::byte const> bytes_of_rows(rows_view<T> const& rows) {
  return std::as_bytes(rows.elements(0, rows.count));
}

/// @throws argument_error if what is written shares memory with what is read
template <class T, class U>
void check_apart(char const* caller, char const* name, rows_view<T> const& read,
                 char const* other_name, rows_view<U> const& written) {
  require(!overlap(bytes_of_rows(read), bytes_of_rows(written)), caller, ": ", name, " and ",
          other_name, " share memory; expected disjoint rows");
}
/// The same for weights: one for each row.
template <class T, class U>
void check_apart(char const* caller, char const* name, std::span<T> read, char const* other_name,
                 rows_view<U> const& written) {
  check_apart(caller, name, rows_view<T>{read.data(), read.size(), 1}, other_name, written);
}

/// @throws argument_error unless everything fits that the backward of unpermute reads and writes
template <class W, class T, class D, class U, class S>
void check_backward(std::size_t rows_count, std::size_t tokens, std::span<W> weights,
                    rows_view<T> const& rows, rows_view<D> const& d_tokens,
                    rows_view<U> const& d_rows, std::span<S> d_weights) {
  constexpr auto caller = "unpermute_backward";
  require(weights.size() == rows_count && d_weights.size() == rows_count, caller, ": ",
          weights.size(), " weights and ", d_weights.size(), " of their gradients; expected ",
          rows_count, " of each");
  check_rows(caller, "rows", rows, rows_count, rows.width);
  check_rows(caller, "d_tokens", d_tokens, tokens, rows.width);
  check_rows(caller, "d_rows", d_rows, rows_count, rows.width);
  auto const written = rows_view<S>{d_weights.data(), d_weights.size(), 1};
  check_apart(caller, "rows", rows, "d_rows", d_rows);
  check_apart(caller, "d_tokens", d_tokens, "d_rows", d_rows);
  check_apart(caller, "weights", weights, "d_rows", d_rows);
  check_apart(caller, "rows", rows, "d_weights", written);
  check_apart(caller, "d_tokens", d_tokens, "d_weights", written);
  check_apart(caller, "weights", weights, "d_weights", written);
  check_apart(caller, "d_rows", d_rows, "d_weights", written);
}

}  // namespace detail
}  // namespace fssdp
