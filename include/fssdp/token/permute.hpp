// SPDX-License-Identifier: Apache-2.0
/// Sorts token rows by expert and brings them back, weighted.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/token/rows_view.hpp"
#include "fssdp/token/token_plan.hpp"

namespace fssdp {

/// The row of every choice of a router when rows are sorted by expert, stably, or in the order in
/// which a plan sends them. Choice c is the (c % per_token)-th expert of token c / per_token.
class expert_order {
 public:
  /// @param choices [tokens * per_token], the experts that the router has chosen
  /// @throws argument_error if there are no experts, a choice is out of range, or the number of
  ///         choices is not a multiple of per_token
  expert_order(std::span<expert_id const> choices, int experts, int per_token);
  /// The same choices with their rows in the order in which the plan sends them.
  /// @param by_expert the order of the choices that the plan's rank has counted
  /// @cost O(choices)
  /// @throws argument_error if the plan sends a different number of rows
  expert_order(expert_order by_expert, token_plan const& plan);

  /// Rows of each expert: [experts].
  [[nodiscard]] std::span<std::uint64_t const> counts() const {
    return {counts_.data(), counts_.size()};
  }
  [[nodiscard]] std::size_t tokens() const { return row_.size() / per_token_; }
  [[nodiscard]] std::size_t per_token() const { return per_token_; }
  /// The number of rows: tokens * per_token.
  [[nodiscard]] std::size_t rows() const { return row_.size(); }
  /// The row of a choice.
  [[nodiscard]] std::size_t row(std::size_t choice) const { return row_[choice]; }

 private:
  std::size_t per_token_;
  std::vector<std::uint64_t> counts_;
  std::vector<std::size_t> row_;
};

/// Copies every token to the rows of its experts.
/// @param from [tokens, width]; @param to [rows, width]
/// @throws argument_error if a shape does not fit, memory is null, or `to` overlaps anything else
template <class T, class U>
requires std::is_same_v<std::remove_const_t<T>, U>
void permute(expert_order const& order, rows_view<T> from, rows_view<U> to) {
  detail::check_rows("permute", "from", from, order.tokens(), from.width);
  detail::check_rows("permute", "to", to, order.rows(), from.width);
  detail::check_apart("permute", "from", from, "to", to);
  for (std::size_t c = 0; c < order.rows(); ++c)
    std::ranges::copy(from[c / order.per_token()], to[order.row(c)].begin());
}

namespace detail {

/// Sums the rows of every token, each times weight(choice), in the order of its choices.
template <class T, element U, class Weight>
void sum_choices(expert_order const& order, rows_view<T> from, rows_view<U> to, Weight weight) {
  using sum_type = accumulator_t<U>;
  constexpr auto in_place = std::is_same_v<U, sum_type>;
  constexpr std::size_t most = 256;  // elements at once
  auto memory = std::array<sum_type, (in_place ? 0 : most)>{};
  for (std::size_t token = 0; token < order.tokens(); ++token)
    for (std::size_t first = 0; first < to.width; first += most) {
      auto const target = to[token].subspan(first, std::min(most, to.width - first));
      auto sums = std::span<sum_type>{};
      if constexpr (in_place)
        sums = target;
      else
        sums = std::span{memory}.first(target.size());
      std::ranges::fill(sums, sum_type{});
      for (auto c = token * order.per_token(); c < (token + 1) * order.per_token(); ++c) {
        auto const source = from[order.row(c)].subspan(first, sums.size());
        auto const factor = static_cast<sum_type>(weight(c));
        for (std::size_t i = 0; i < sums.size(); ++i)
          sums[i] += factor * static_cast<sum_type>(source[i]);
      }
      if constexpr (!in_place)
        std::ranges::transform(sums, target.begin(),
                               [](sum_type sum) { return static_cast<U>(sum); });
    }
}

}  // namespace detail

/// The transpose of permute: sums the rows of every token, in accumulator_t.
/// @param from [rows, width]; @param to [tokens, width], overwritten
/// @throws argument_error if a shape does not fit, memory is null, or `to` overlaps anything else
template <class T, element U>
requires std::is_same_v<std::remove_const_t<T>, U>
void permute_backward(expert_order const& order, rows_view<T> from, rows_view<U> to) {
  detail::check_rows("permute_backward", "from", from, order.rows(), from.width);
  detail::check_rows("permute_backward", "to", to, order.tokens(), from.width);
  detail::check_apart("permute_backward", "from", from, "to", to);
  detail::sum_choices(order, from, to, [](std::size_t) { return 1; });
}

/// Sums the rows of every token, weighted, in accumulator_t.
/// @param weights [tokens * per_token], of the router, in the order of the choices
/// @param from [rows, width]; @param to [tokens, width], overwritten
/// @throws argument_error if a shape does not fit, memory is null, or `to` overlaps anything else
template <class W, class T, element U>
requires std::is_same_v<std::remove_const_t<T>, U>
void unpermute(expert_order const& order, std::span<W> weights, rows_view<T> from,
               rows_view<U> to) {
  detail::require(weights.size() == order.rows(), "unpermute: ", weights.size(),
                  " weights; expected ", order.rows());
  detail::check_rows("unpermute", "from", from, order.rows(), from.width);
  detail::check_rows("unpermute", "to", to, order.tokens(), from.width);
  detail::check_apart("unpermute", "from", from, "to", to);
  detail::check_apart("unpermute", "weights", weights, "to", to);
  detail::sum_choices(order, from, to, [weights](std::size_t c) { return weights[c]; });
}

/// The backward of unpermute.
/// @param weights, rows as in the forward pass; @param d_tokens [tokens, width]
/// @param d_rows [rows, width], overwritten
/// @param d_weights [tokens * per_token], overwritten: in the type in which sums are formed
/// @throws argument_error if a shape does not fit, memory is null, or an output overlaps anything
///         else
template <class W, class T, class D, element U>
requires std::is_same_v<std::remove_const_t<T>, U> && std::is_same_v<std::remove_const_t<D>, U>
void unpermute_backward(expert_order const& order, std::span<W> weights, rows_view<T> rows,
                        rows_view<D> d_tokens, rows_view<U> d_rows,
                        std::span<accumulator_t<U>> d_weights) {
  detail::check_backward(order.rows(), order.tokens(), weights, rows, d_tokens, d_rows, d_weights);
  using sum_type = accumulator_t<U>;
  for (std::size_t c = 0; c < order.rows(); ++c) {
    auto const row = rows[order.row(c)];
    auto const d_token = d_tokens[c / order.per_token()];
    auto const d_row = d_rows[order.row(c)];
    auto const weight = static_cast<sum_type>(weights[c]);
    auto dot = sum_type{};
    for (std::size_t i = 0; i < row.size(); ++i) {
      auto const gradient = static_cast<sum_type>(d_token[i]);
      dot += gradient * static_cast<sum_type>(row[i]);
      d_row[i] = static_cast<U>(weight * gradient);
    }
    d_weights[c] = dot;
  }
}

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/token/permute_inl.hpp"
#endif
