// SPDX-License-Identifier: Apache-2.0
/// Argument checks of rows.
#pragma once

#include <cstddef>
#include <limits>

#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/token/rows_view.hpp"

namespace fssdp::detail {

FSSDP_INLINE void check_rows(char const* caller, char const* name, row_memory const& rows,
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

FSSDP_INLINE void check_apart(char const* caller, char const* name, row_memory const& read,
                              char const* other_name, row_memory const& written) {
  require(!overlap(read.bytes(), written.bytes()), caller, ": ", name, " and ", other_name,
          " share memory; expected disjoint rows");
}

FSSDP_INLINE void check_backward(std::size_t rows_count, std::size_t tokens,
                                 row_memory const& weights, row_memory const& rows,
                                 row_memory const& d_tokens, row_memory const& d_rows,
                                 row_memory const& d_weights) {
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

}  // namespace fssdp::detail
