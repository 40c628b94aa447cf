// SPDX-License-Identifier: Apache-2.0
/// Sorts token rows by expert and brings them back, weighted, on a device, with Thrust.
#pragma once

#include <thrust/for_each.h>
#include <thrust/iterator/counting_iterator.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "fssdp/core/error.hpp"
#include "fssdp/element/device_sums.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/element/element_lanes.hpp"
#include "fssdp/element/host_device.hpp"
#include "fssdp/token/device_order.hpp"
#include "fssdp/token/rows_view.hpp"

namespace fssdp {

namespace detail {

/// Reads a row in steps of several elements, or one by one where addresses or widths require it.
template <class T>
struct row_steps {
  static constexpr auto lanes = lanes_of<T, T>;
  std::size_t width;
  std::size_t each;    // elements per step
  std::size_t of_row;  // steps per row

  row_steps(std::size_t elements, bool all_wide)
      : width{elements},
        each{all_wide && elements % lanes == 0 ? lanes : 1},
        of_row{elements / each} {}
  /// The number of steps for all rows.
  [[nodiscard]] std::size_t count(std::size_t rows) const { return rows * of_row; }
  FSSDP_HOST_DEVICE std::size_t row(std::size_t step) const { return step / of_row; }
  FSSDP_HOST_DEVICE std::size_t first(std::size_t step) const { return step % of_row * each; }
};

template <std::size_t N, class T>
FSSDP_HOST_DEVICE void load(T const* source, T (&values)[N]) {
  if constexpr (N == 1) {
    values[0] = *source;
  } else {
    auto wide = element_lanes<T, N>{};
    wide.load(source);
    for (std::size_t i = 0; i < N; ++i) values[i] = wide.at[i];
  }
}
template <std::size_t N, class T>
FSSDP_HOST_DEVICE void store(T const (&values)[N], T* target) {
  if constexpr (N == 1) {
    *target = values[0];
  } else {
    auto wide = element_lanes<T, N>{};
    for (std::size_t i = 0; i < N; ++i) wide.at[i] = values[i];
    wide.store(target);
  }
}

/// Copies a token to its rows; the token is read once.
template <class T>
struct permute_kernel {
  row_steps<T> steps;
  std::uint32_t const* row_of;
  std::size_t per_token;
  T const* from;
  T* to;

  FSSDP_HOST_DEVICE void operator()(std::size_t step) const {
    auto const token = steps.row(step);
    auto const first = steps.first(step);
    if (steps.each == 1)
      copy<1>(token, first);
    else
      copy<row_steps<T>::lanes>(token, first);
  }

 private:
  template <std::size_t N>
  FSSDP_HOST_DEVICE void copy(std::size_t token, std::size_t first) const {
    T values[N];
    load(from + token * steps.width + first, values);
    for (auto c = token * per_token; c < (token + 1) * per_token; ++c)
      store(values, to + row_of[c] * steps.width + first);
  }
};

/// Sums the rows of a token, weighted, in the order of its choices; without weights, the plain sum.
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
};

/// The gradients of a token's rows: its own gradient, which is read once, times their weights.
template <class W, class T>
struct unpermute_backward_kernel {
  using sum_type = accumulator_t<T>;
  row_steps<T> steps;
  std::uint32_t const* row_of;
  std::size_t per_token;
  W const* weights;
  T const* d_tokens;
  T* d_rows;

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
    T gradient[N];
    T values[N];
    load(d_tokens + token * steps.width + first, gradient);
    for (auto c = token * per_token; c < (token + 1) * per_token; ++c) {
      auto const weight = static_cast<sum_type>(weights[c]);
      for (std::size_t i = 0; i < N; ++i)
        values[i] = static_cast<T>(product(weight, static_cast<sum_type>(gradient[i])));
      store(values, d_rows + row_of[c] * steps.width + first);
    }
  }
};

/// The gradient of a weight: the inner product of the gradient of its token and its row.
/// Neighbouring threads sum neighbouring elements; their sums are added in the order of the
/// threads. That order does not depend on addresses, nor on whether one thread does all of it.
template <class T>
struct weight_gradient {
  using sum_type = accumulator_t<T>;
  static constexpr auto lanes = 2 * row_steps<T>::lanes;  // two loads are in flight at a time
  static constexpr std::size_t parts = 32;                // threads for a row

  row_steps<T> steps;
  std::uint32_t const* row_of;
  std::size_t per_token;
  T const* rows;
  T const* d_tokens;

  /// The sum of one thread: every 32nd group of `lanes` elements.
  FSSDP_HOST_DEVICE sum_type of_part(std::size_t choice, std::size_t part) const {
    auto const* const row = rows + row_of[choice] * steps.width;
    auto const* const d_token = d_tokens + choice / per_token * steps.width;
    auto sum = sum_type{};
    for (auto i = part * lanes; i < steps.width; i += parts * lanes)
      if (steps.each > 1 && steps.width - i >= lanes)
        add<lanes>(d_token + i, row + i, sum);
      else
        for (auto k = i; k < i + lanes && k < steps.width; ++k) add<1>(d_token + k, row + k, sum);
    return sum;
  }

 private:
  template <std::size_t N>
  FSSDP_HOST_DEVICE static void add(T const* a, T const* b, sum_type& sum) {
    T left[N];
    T right[N];
    load(a, left);
    load(b, right);
    for (std::size_t i = 0; i < N; ++i)
      sum += product(static_cast<sum_type>(left[i]), static_cast<sum_type>(right[i]));
  }
};

/// Forms the sum of each thread of each row, where there is memory for these.
template <class T>
struct weight_parts_kernel {
  weight_gradient<T> of;
  accumulator_t<T>* sums;  // [choices, parts]

  FSSDP_HOST_DEVICE void operator()(std::size_t step) const {
    constexpr auto parts = weight_gradient<T>::parts;
    sums[step] = of.of_part(step / parts, step % parts);
  }
};
/// Adds the sums of the threads of each row; forms them itself where there was no memory for them.
template <class T>
struct weight_gradient_kernel {
  weight_gradient<T> of;
  accumulator_t<T> const* sums;  // or null
  accumulator_t<T>* d_weights;

  FSSDP_HOST_DEVICE void operator()(std::size_t choice) const {
    constexpr auto parts = weight_gradient<T>::parts;
    auto sum = accumulator_t<T>{};
    for (std::size_t part = 0; part < parts; ++part)
      sum += sums != nullptr ? sums[choice * parts + part] : of.of_part(choice, part);
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
/// @param on as for order_by_expert
/// @param from [tokens, width]; @param to [rows, width]
/// @cost every token is read once and every row written once, 16 bytes at a time where addresses
///       and width allow it; no allocation
/// @throws argument_error if a shape does not fit, memory is null, or `to` overlaps anything else
template <class Policy, class T, class U>
requires std::is_same_v<std::remove_const_t<T>, U>
void permute(Policy const& on, device_expert_order const& order, rows_view<T> from,
             rows_view<U> to) {
  detail::check_order("permute", order);
  detail::check_rows("permute", "from", from, order.tokens(), from.width);
  detail::check_rows("permute", "to", to, order.rows(), from.width);
  detail::check_apart("permute", "from", from, "to", to);
  if (from.width == 0) return;
  auto const steps =
      detail::row_steps<U>{from.width, detail::is_wide(from.data) && detail::is_wide(to.data)};
  detail::for_each_step(
      on, steps.count(order.tokens()),
      detail::permute_kernel<U>{steps, order.row_of.data(), order.per_token, from.data, to.data});
}

/// The transpose of permute: sums the rows of every token, in accumulator_t.
/// @param from [rows, width]; @param to [tokens, width], overwritten
/// @cost as permute, the other way; @throws as permute
template <class Policy, class T, class U>
requires std::is_same_v<std::remove_const_t<T>, U>
void permute_backward(Policy const& on, device_expert_order const& order, rows_view<T> from,
                      rows_view<U> to) {
  detail::check_order("permute_backward", order);
  detail::check_rows("permute_backward", "from", from, order.rows(), from.width);
  detail::check_rows("permute_backward", "to", to, order.tokens(), from.width);
  detail::check_apart("permute_backward", "from", from, "to", to);
  if (from.width == 0) return;
  U const* const no_weights = nullptr;
  detail::sum_choices(on, order, no_weights, static_cast<U const*>(from.data), to.data, from.width);
}

/// Sums the rows of every token, weighted, in accumulator_t: unpermute, on a device.
/// @param weights [tokens * per_token], of the router, in the order of the choices
/// @param from [rows, width]; @param to [tokens, width], overwritten
/// @cost, @throws as permute_backward
template <class Policy, class W, class T, class U>
requires std::is_same_v<std::remove_const_t<T>, U>
void unpermute(Policy const& on, device_expert_order const& order, std::span<W const> weights,
               rows_view<T> from, rows_view<U> to) {
  detail::check_order("unpermute", order);
  detail::require(weights.size() == order.rows(), "unpermute: ", weights.size(),
                  " weights; expected ", order.rows());
  detail::check_rows("unpermute", "from", from, order.rows(), from.width);
  detail::check_rows("unpermute", "to", to, order.tokens(), from.width);
  detail::check_apart("unpermute", "from", from, "to", to);
  detail::check_apart("unpermute", "weights", weights, "to", to);
  if (from.width == 0) return;
  detail::sum_choices(on, order, weights.data(), static_cast<U const*>(from.data), to.data,
                      from.width);
}

/// The backward of unpermute. The bits of d_weights depend only on values and width. They differ
/// from those of the host within rounding, as the order of summation differs.
/// @param weights, rows as in the forward pass; @param d_tokens [tokens, width]
/// @param d_rows [rows, width], overwritten
/// @param d_weights [tokens * per_token], overwritten
/// @cost two passes over the rows, 16 bytes at a time where addresses and width allow it. No
///       allocation: d_rows first stores 32 partial sums for each row. If these do not fit (rows of
///       fewer than 128 fp8, 64 bf16 or 32 floats; unaligned addresses), one thread sums each row
/// @throws argument_error if a shape does not fit, memory is null, or an output overlaps anything
///         else
template <class Policy, class W, class T>
void unpermute_backward(Policy const& on, device_expert_order const& order,
                        std::span<W const> weights, rows_view<T const> rows,
                        rows_view<T const> d_tokens, rows_view<T> d_rows,
                        std::span<accumulator_t<T>> d_weights) {
  detail::check_order("unpermute_backward", order);
  auto const width = rows.width;
  detail::check_backward(order.rows(), order.tokens(), weights, rows, d_tokens, d_rows, d_weights);
  if (width == 0 || order.rows() == 0) return;
  using sum_type = accumulator_t<T>;
  constexpr auto parts = detail::weight_gradient<T>::parts;
  auto const wide = detail::is_wide(d_tokens.data);
  auto const* const row_of = order.row_of.data();
  auto const read_steps = detail::row_steps<T>{width, wide && detail::is_wide(rows.data)};
  auto const gradient =
      detail::weight_gradient<T>{read_steps, row_of, order.per_token, rows.data, d_tokens.data};
  // d_rows is written last: until then it has room for partial sums
  auto const has_room = width * sizeof(T) >= parts * sizeof(sum_type) &&
                        reinterpret_cast<std::uintptr_t>(d_rows.data) % alignof(sum_type) == 0;
  auto* const sums = has_room ? reinterpret_cast<sum_type*>(d_rows.data) : nullptr;
  if (has_room)
    detail::for_each_step(on, order.rows() * parts, detail::weight_parts_kernel<T>{gradient, sums});
  detail::for_each_step(on, order.rows(),
                        detail::weight_gradient_kernel<T>{gradient, sums, d_weights.data()});
  auto const written_steps = detail::row_steps<T>{width, wide && detail::is_wide(d_rows.data)};
  detail::for_each_step(
      on, written_steps.count(order.tokens()),
      detail::unpermute_backward_kernel<W, T>{written_steps, row_of, order.per_token,
                                              weights.data(), d_tokens.data, d_rows.data});
}

}  // namespace fssdp
