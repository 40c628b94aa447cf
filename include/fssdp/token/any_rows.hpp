// SPDX-License-Identifier: Apache-2.0
/// Dispatch, combine and permutations of rows whose element type is known only at run time, as in a
/// host framework.
///
///     auto const rows = fssdp::any_const_rows{fssdp::dtype::bf16, x, tokens, width};
///     fssdp::permute(order, rows, sent);
///     fssdp::dispatch(comm, plan, sent, received);
///
/// The bits are those of rows_view<T>. any_rows_of makes such a view of a rows_view.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/dtype.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/memory/any_tensor.hpp"
#include "fssdp/token/dispatch.hpp"
#include "fssdp/token/permute.hpp"
#include "fssdp/token/rows_view.hpp"
#include "fssdp/token/token_plan.hpp"

namespace fssdp {

/// A rows_view whose type is a value: [count, width] of `type`, row by row. Lists with one number
/// per row, such as weights, have width 1.
/// @tparam Void void, or void const for rows that are only read
template <class Void>
struct basic_any_rows {
  dtype type = dtype::fp32;
  Void* data = nullptr;
  std::size_t count = 0;
  std::size_t width = 0;

  template <std::same_as<void const> Const>
  requires(!std::is_const_v<Void>) constexpr operator basic_any_rows<Const>() const {
    return {type, data, count, width};
  }
};
using any_rows = basic_any_rows<void>;
using any_const_rows = basic_any_rows<void const>;

/// A view of the same memory, with its type as a value.
template <class T>
requires std::same_as<decltype(dtype_of<std::remove_const_t<T>>), dtype const>
[[nodiscard]] auto any_rows_of(rows_view<T> const& rows) {
  using any = std::conditional_t<std::is_const_v<T>, void const, void>;
  return basic_any_rows<any>{dtype_of<std::remove_const_t<T>>, rows.data, rows.count, rows.width};
}

namespace detail {

/// @throws argument_error if its dtype is invalid
[[nodiscard]] inline row_memory row_memory_of(any_const_rows const& rows) {
  return {rows.data, rows.count, rows.width, element_size(rows.type)};
}
/// @throws argument_error unless the rows have this type
inline void check_row_type(char const* caller, char const* name, any_const_rows const& rows,
                           dtype expected) {
  (void)element_size(rows.type);
  (void)element_size(expected);
  require(rows.type == expected, caller, ": ", name, " is ", name_of(rows.type), "; expected ",
          name_of(expected));
}

}  // namespace detail

/// As dispatch and combine of rows_view: rows are sent without conversion.
/// @cost as those
/// @throws as those; argument_error if the types of `from` and `to` differ or are invalid
template <communicator Comm>
void dispatch(Comm& comm, token_plan const& plan, any_const_rows const& from, any_rows const& to,
              token_options const& options = {}) {
  detail::check_row_type("dispatch", "from", from, to.type);
  detail::exchange_rows("dispatch", comm, plan, false, detail::row_memory_of(from),
                        detail::row_memory_of(to), options);
}
template <communicator Comm>
void combine(Comm& comm, token_plan const& plan, any_const_rows const& from, any_rows const& to,
             token_options const& options = {}) {
  detail::check_row_type("combine", "from", from, to.type);
  detail::exchange_rows("combine", comm, plan, true, detail::row_memory_of(from),
                        detail::row_memory_of(to), options);
}

/// As those of rows_view, on the host.
/// @throws as those; argument_error if the types of rows differ or are invalid
void permute(expert_order const& order, any_const_rows const& from, any_rows const& to);
void permute_backward(expert_order const& order, any_const_rows const& from, any_rows const& to);
/// @param weights [tokens * per_token, 1], of any type
/// @cost as that of rows_view; one allocation unless weights are of accumulator_of the type of the
///       rows
void unpermute(expert_order const& order, any_const_rows const& weights, any_const_rows const& from,
               any_rows const& to);
/// @param weights as for unpermute
/// @param d_weights [tokens * per_token, 1], of accumulator_of the type of the rows
void unpermute_backward(expert_order const& order, any_const_rows const& weights,
                        any_const_rows const& rows, any_const_rows const& d_tokens,
                        any_rows const& d_rows, any_rows const& d_weights);

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/token/any_rows_inl.hpp"
#endif
