// SPDX-License-Identifier: Apache-2.0
/// Sorts token rows by expert and brings them back, weighted, where they are: on a device. With
/// Thrust.
#pragma once

#include <thrust/for_each.h>
#include <thrust/iterator/counting_iterator.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "fssdp/core/device_sum.hpp"
#include "fssdp/core/dtype.hpp"
#include "fssdp/core/element_lanes.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/host_device.hpp"
#include "fssdp/token/device_order.hpp"
#include "fssdp/token/rows_view.hpp"

namespace fssdp {

namespace detail {

/// Some elements of a row at once, or one by one where addresses or widths forbid that.
template <class T>
struct row_steps {
  static constexpr auto lanes = lanes_of<T, T>;
  std::size_t width;
  std::size_t each;  // elements of a step

  row_steps(std::size_t elements, bool all_wide)
      : width{elements}, each{all_wide && elements % lanes == 0 ? lanes : 1} {}
  /// Of all rows.
  [[nodiscard]] std::size_t count(std::size_t rows) const { return rows * (width / each); }
  FSSDP_HOST_DEVICE std::size_t row(std::size_t step) const { return step * each / width; }
  FSSDP_HOST_DEVICE std::size_t first(std::size_t step) const { return step * each % width; }
};

/// A row of the experts is a copy of the row of its token.
template <class T>
struct permute_kernel {
  row_steps<T> steps;
  std::uint32_t const* choice_of;
  std::size_t per_token;
  T const* from;
  T* to;

  FSSDP_HOST_DEVICE void operator()(std::size_t step) const {
    auto const row = steps.row(step);
    auto const first = steps.first(step);
    auto const* const source = from + choice_of[row] / per_token * steps.width + first;
    auto* const target = to + row * steps.width + first;
    if (steps.each == 1) {
      *target = *source;
      return;
    }
    auto values = element_lanes<T, row_steps<T>::lanes>{};
    values.load(source);
    values.store(target);
  }
};

/// A token gets the weighted sum of its rows, in the order of its choices. Without weights: their
/// sum.
template <class W, class T>
struct unpermute_kernel {
  using sum_type = accumulator_t<T>;
  row_steps<T> steps;
  std::uint32_t const* row_of;
  std::size_t per_token;
  W const* weights;  // or null
  T const* from;
  T* to;

  FSSDP_HOST_DEVICE void operator()(std::size_t step) const {
    auto const token = steps.row(step);
    auto const first = steps.first(step);
    if (steps.each == 1)
      form<1>(token, first);
    else
      form<row_steps<T>::lanes>(token, first);
  }

 private:
  template <std::size_t N>
  FSSDP_HOST_DEVICE void form(std::size_t token, std::size_t first) const {
    sum_type sums[N] = {};
    T values[N];
    for (auto c = token * per_token; c < (token + 1) * per_token; ++c) {
      load(from + row_of[c] * steps.width + first, values);
      auto const weight = weights != nullptr ? static_cast<sum_type>(weights[c]) : sum_type{1};
      for (std::size_t i = 0; i < N; ++i)
        sums[i] += product(weight, static_cast<sum_type>(values[i]));
    }
    for (std::size_t i = 0; i < N; ++i) values[i] = static_cast<T>(sums[i]);
    store(values, to + token * steps.width + first);
  }
  template <std::size_t N>
  FSSDP_HOST_DEVICE static void load(T const* source, T (&values)[N]) {
    if constexpr (N == 1) {
      values[0] = *source;
    } else {
      auto wide = element_lanes<T, N>{};
      wide.load(source);
      for (std::size_t i = 0; i < N; ++i) values[i] = wide.at[i];
    }
  }
  template <std::size_t N>
  FSSDP_HOST_DEVICE static void store(T const (&values)[N], T* target) {
    if constexpr (N == 1) {
      *target = values[0];
    } else {
      auto wide = element_lanes<T, N>{};
      for (std::size_t i = 0; i < N; ++i) wide.at[i] = values[i];
      wide.store(target);
    }
  }
};

/// A row's gradient is that of its token, times its weight.
template <class W, class T>
struct unpermute_backward_kernel {
  using sum_type = accumulator_t<T>;
  std::size_t width;
  std::uint32_t const* choice_of;
  std::size_t per_token;
  W const* weights;
  T const* d_tokens;
  T* d_rows;

  FSSDP_HOST_DEVICE void operator()(std::size_t i) const {
    auto const choice = choice_of[i / width];
    auto const gradient = d_tokens[choice / per_token * width + i % width];
    d_rows[i] = static_cast<T>(
        product(static_cast<sum_type>(weights[choice]), static_cast<sum_type>(gradient)));
  }
};

/// The gradient of a weight is the product of the gradient of its token with its row.
template <class T>
struct weight_gradient_kernel {
  using sum_type = accumulator_t<T>;
  std::size_t width;
  std::uint32_t const* row_of;
  std::size_t per_token;
  T const* rows;
  T const* d_tokens;
  sum_type* d_weights;

  FSSDP_HOST_DEVICE void operator()(std::size_t choice) const {
    auto const* const row = rows + row_of[choice] * width;
    auto const* const d_token = d_tokens + choice / per_token * width;
    auto sum = sum_type{};
    for (std::size_t i = 0; i < width; ++i)
      sum += product(static_cast<sum_type>(d_token[i]), static_cast<sum_type>(row[i]));
    d_weights[choice] = sum;
  }
};

template <class Policy, class Kernel>
void for_each_step(Policy const& on, std::size_t steps, Kernel const& kernel) {
  thrust::for_each_n(on, thrust::counting_iterator<std::size_t>{0}, steps, kernel);
}

template <class Policy, class W, class T>
void sum_choices(Policy const& on, device_expert_order const& order, W const* weights,
                 T const* from, T* to, std::size_t width) {
  auto const steps = row_steps<T>{width, is_wide(from) && is_wide(to)};
  for_each_step(
      on, steps.count(order.tokens()),
      unpermute_kernel<W, T>{steps, order.row_of.data(), order.per_token, weights, from, to});
}

}  // namespace detail

/// Copies every token to the rows of its experts: permute, on a device.
/// @param on as order_by_expert takes it
/// @param from [tokens, width]; @param to [rows, width]
/// @cost one pass, 16 bytes at a time where addresses and width allow it; no allocation
/// @throws argument_error on other shapes
template <class Policy, class T, class U>
requires std::is_same_v<std::remove_const_t<T>, U>
void permute(Policy const& on, device_expert_order const& order, rows_view<T> from,
             rows_view<U> to) {
  detail::check_order("permute", order);
  detail::check_rows("permute", "from", from, order.tokens(), from.width);
  detail::check_rows("permute", "to", to, order.rows(), from.width);
  if (from.width == 0) return;
  auto const steps =
      detail::row_steps<U>{from.width, detail::is_wide(from.data) && detail::is_wide(to.data)};
  detail::for_each_step(on, steps.count(order.rows()),
                        detail::permute_kernel<U>{steps, order.choice_of.data(), order.per_token,
                                                  from.data, to.data});
}

/// The transpose of permute: every token gets the sum of its rows, formed in accumulator_t.
/// @param from [rows, width]; @param to [tokens, width], overwritten
/// @cost, @throws as permute
template <class Policy, class T, class U>
requires std::is_same_v<std::remove_const_t<T>, U>
void permute_backward(Policy const& on, device_expert_order const& order, rows_view<T> from,
                      rows_view<U> to) {
  detail::check_order("permute_backward", order);
  detail::check_rows("permute_backward", "from", from, order.rows(), from.width);
  detail::check_rows("permute_backward", "to", to, order.tokens(), from.width);
  if (from.width == 0) return;
  U const* const no_weights = nullptr;
  detail::sum_choices(on, order, no_weights, static_cast<U const*>(from.data), to.data, from.width);
}

/// Every token gets the weighted sum of its rows, formed in accumulator_t: unpermute, on a device.
/// @param weights [tokens * per_token], of the gate, in the order of the choices
/// @param from [rows, width]; @param to [tokens, width], overwritten
/// @cost, @throws as permute
template <class Policy, class W, class T, class U>
requires std::is_same_v<std::remove_const_t<T>, U>
void unpermute(Policy const& on, device_expert_order const& order, std::span<W const> weights,
               rows_view<T> from, rows_view<U> to) {
  detail::check_order("unpermute", order);
  detail::require(weights.size() == order.rows(), "unpermute: ", weights.size(),
                  " weights; expected ", order.rows());
  detail::check_rows("unpermute", "from", from, order.rows(), from.width);
  detail::check_rows("unpermute", "to", to, order.tokens(), from.width);
  if (from.width == 0) return;
  detail::sum_choices(on, order, weights.data(), static_cast<U const*>(from.data), to.data,
                      from.width);
}

/// The backward of unpermute.
/// @param weights, rows as in the forward pass; @param d_tokens [tokens, width]
/// @param d_rows [rows, width], overwritten
/// @param d_weights [tokens * per_token], overwritten
/// @cost two passes over the rows, in the second a thread for each of them; no allocation
/// @throws argument_error on other shapes
template <class Policy, class W, class T>
void unpermute_backward(Policy const& on, device_expert_order const& order,
                        std::span<W const> weights, rows_view<T const> rows,
                        rows_view<T const> d_tokens, rows_view<T> d_rows,
                        std::span<accumulator_t<T>> d_weights) {
  constexpr auto verb = "unpermute_backward";
  detail::check_order(verb, order);
  detail::require(weights.size() == order.rows() && d_weights.size() == order.rows(), verb, ": ",
                  weights.size(), " weights and ", d_weights.size(),
                  " of their gradients; expected ", order.rows(), " of each");
  auto const width = rows.width;
  detail::check_rows(verb, "rows", rows, order.rows(), width);
  detail::check_rows(verb, "d_tokens", d_tokens, order.tokens(), width);
  detail::check_rows(verb, "d_rows", d_rows, order.rows(), width);
  if (width == 0 || order.rows() == 0) return;
  auto const elements = order.rows() * width;
  detail::for_each_step(
      on, elements,
      detail::unpermute_backward_kernel<W, T>{width, order.choice_of.data(), order.per_token,
                                              weights.data(), d_tokens.data, d_rows.data});
  detail::for_each_step(
      on, order.rows(),
      detail::weight_gradient_kernel<T>{width, order.row_of.data(), order.per_token, rows.data,
                                        d_tokens.data, d_weights.data()});
}

}  // namespace fssdp
