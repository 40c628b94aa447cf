// SPDX-License-Identifier: Apache-2.0
/// Error feedback: the error of one payload is added to the next one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/encode_elements.hpp"
#include "fssdp/element/dtype.hpp"

namespace fssdp {

/// Encodes from + residual, and stores the error in the residual. The caller keeps the residual:
/// one float per element, zero at first, from one step to the next. For an element that is not
/// finite, or becomes infinite, the new residual is zero.
/// @pre residual.size() == from.size(), payload.size() == coder.encoded_bytes(from.size()); memory
///      does not overlap
/// @post over any number of calls, the sum of all decoded values and the last residual equals the
///       sum of all `from` and the first residual, up to one rounding to float per call.
///       |residual| <= coder.error_bound of from + residual; for doubles it also has their rounding
/// @cost reads every element twice, reads and writes the residual, encodes and decodes, no
///       allocation
template <codec Codec, element T>
void encode_with_feedback(Codec const& coder, std::span<T const> from, std::span<float> residual,
                          std::span<std::byte> payload) noexcept {
  using sum_type = accumulator_t<T>;
  constexpr auto stretch = detail::stretch_elements<Codec>;
  auto sums = std::array<float, stretch>{};
  auto decoded = std::array<float, stretch>{};
  for (std::size_t first = 0; first < from.size(); first += stretch) {
    auto const n = std::min(stretch, from.size() - first);
    auto const rest = residual.subspan(first, n);
    auto const sum = [&](std::size_t i) {
      return static_cast<sum_type>(from[first + i]) + static_cast<sum_type>(rest[i]);
    };
    for (std::size_t i = 0; i < n; ++i) sums[i] = static_cast<float>(sum(i));
    auto const bytes = coder.encoded_bytes(n);
    coder.encode(std::span{sums}.first(n), payload.first(bytes));
    coder.decode(payload.first(bytes), std::span{decoded}.first(n));
    for (std::size_t i = 0; i < n; ++i) {
      auto const left = static_cast<float>(sum(i) - static_cast<sum_type>(decoded[i]));
      rest[i] = left - left == 0 ? left : 0.0F;  // zero unless it is finite
    }
    payload = payload.subspan(bytes);
  }
}

/// The same for an element type of another library.
template <codec Codec, element T>
requires detail::any_foreign<T>
void encode_with_feedback(Codec const& coder, std::span<T const> from, std::span<float> residual,
                          std::span<std::byte> payload) noexcept {
  encode_with_feedback(coder, detail::as_native(from), residual, payload);
}

}  // namespace fssdp
