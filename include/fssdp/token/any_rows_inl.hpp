// SPDX-License-Identifier: Apache-2.0
/// Sorts rows of any type by expert, and brings them back.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "fssdp/core/dtype.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/element/runtime_work.hpp"
#include "fssdp/token/any_rows.hpp"

namespace fssdp {

namespace detail {

/// The rows as those of a type.
template <class T, class Void>
[[nodiscard]] rows_view<T> rows_as(basic_any_rows<Void> const& rows) {
  return {static_cast<T*>(rows.data), rows.count, rows.width};
}

/// One weight for each row, in the type in which rows are summed.
class row_weights {
 public:
  /// @throws argument_error unless there are `count` of them
  row_weights(char const* caller, any_const_rows const& weights, std::size_t count, dtype type)
      : data_{weights.data}, count_{count} {
    check_rows(caller, "weights", row_memory_of(weights), count, 1);
    if (weights.type == type) return;
    converted_.resize(count * bytes_of(type));
    auto const conversion = runtime_conversion(weights.type, type);
    if (count != 0) conversion.on_host(conversion, weights.data, converted_.data(), count);
    data_ = converted_.data();
  }
  row_weights(row_weights const&) = delete;
  row_weights& operator=(row_weights const&) = delete;

  template <class Sum>
  [[nodiscard]] std::span<Sum const> as() const {
    return {static_cast<Sum const*>(data_), count_};
  }

 private:
  void const* data_;
  std::size_t count_;
  std::vector<std::byte> converted_;
};

}  // namespace detail

FSSDP_INLINE void permute(expert_order const& order, any_const_rows const& from,
                          any_rows const& to) {
  detail::check_row_type("permute", "from", from, to.type);
  with_element(to.type, [&]<class T>(std::type_identity<T>) {
    permute(order, detail::rows_as<T const>(from), detail::rows_as<T>(to));
  });
}
FSSDP_INLINE void permute_backward(expert_order const& order, any_const_rows const& from,
                                   any_rows const& to) {
  detail::check_row_type("permute_backward", "from", from, to.type);
  with_element(to.type, [&]<class T>(std::type_identity<T>) {
    permute_backward(order, detail::rows_as<T const>(from), detail::rows_as<T>(to));
  });
}
FSSDP_INLINE void unpermute(expert_order const& order, any_const_rows const& weights,
                            any_const_rows const& from, any_rows const& to) {
  constexpr auto caller = "unpermute";
  detail::check_row_type(caller, "from", from, to.type);
  auto const factors = detail::row_weights{caller, weights, order.rows(), accumulator_of(to.type)};
  detail::check_rows(caller, "to", detail::row_memory_of(to), order.tokens(), from.width);
  detail::check_apart(caller, "weights", detail::row_memory_of(weights), "to",
                      detail::row_memory_of(to));
  with_element(to.type, [&]<class T>(std::type_identity<T>) {
    unpermute(order, factors.as<accumulator_t<T>>(), detail::rows_as<T const>(from),
              detail::rows_as<T>(to));
  });
}
FSSDP_INLINE void unpermute_backward(expert_order const& order, any_const_rows const& weights,
                                     any_const_rows const& rows, any_const_rows const& d_tokens,
                                     any_rows const& d_rows, any_rows const& d_weights) {
  constexpr auto caller = "unpermute_backward";
  auto const sums = accumulator_of(d_rows.type);
  detail::check_row_type(caller, "rows", rows, d_rows.type);
  detail::check_row_type(caller, "d_tokens", d_tokens, d_rows.type);
  detail::check_row_type(caller, "d_weights", d_weights, sums);
  auto const factors = detail::row_weights{caller, weights, order.rows(), sums};
  detail::check_rows(caller, "d_weights", detail::row_memory_of(d_weights), order.rows(), 1);
  detail::check_backward(order.rows(), order.tokens(), detail::row_memory_of(weights),
                         detail::row_memory_of(rows), detail::row_memory_of(d_tokens),
                         detail::row_memory_of(d_rows), detail::row_memory_of(d_weights));
  with_element(d_rows.type, [&]<class T>(std::type_identity<T>) {
    using sum_type = accumulator_t<T>;
    unpermute_backward(order, factors.as<sum_type>(), detail::rows_as<T const>(rows),
                       detail::rows_as<T const>(d_tokens), detail::rows_as<T>(d_rows),
                       std::span{static_cast<sum_type*>(d_weights.data), d_weights.count});
  });
}

}  // namespace fssdp
