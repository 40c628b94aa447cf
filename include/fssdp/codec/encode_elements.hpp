// SPDX-License-Identifier: Apache-2.0
/// Encodes elements of any type.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <span>

#include "fssdp/codec/codec.hpp"
#include "fssdp/element/dtype.hpp"

namespace fssdp {

namespace detail {

/// How many elements are converted on the stack in one step: whole blocks.
template <codec Codec>
inline constexpr std::size_t stretch_elements =
    std::max<std::size_t>(1, 1024 / Codec::block_elements) * Codec::block_elements;

}  // namespace detail

/// The payload of the elements, converted to floats first, as of `coder.encode`. Only doubles are
/// rounded by that, once, to nearest even; from 2^128 on they become infinity.
/// @pre payload.size() == coder.encoded_bytes(from.size()); memory does not overlap
/// @cost reads every element once, writes the payload once, no allocation
template <codec Codec, element T>
void encode_elements(Codec const& coder, std::span<T const> from,
                     std::span<std::byte> payload) noexcept {
  if constexpr (std::same_as<T, float>) {
    coder.encode(from, payload);
  } else if constexpr (detail::any_foreign<T>) {
    encode_elements(coder, detail::as_native(from), payload);
  } else {
    constexpr auto stretch = detail::stretch_elements<Codec>;
    auto floats = std::array<float, stretch>{};
    for (std::size_t first = 0; first < from.size(); first += stretch) {
      auto const part = from.subspan(first, std::min(stretch, from.size() - first));
      for (std::size_t i = 0; i < part.size(); ++i) floats[i] = static_cast<float>(part[i]);
      auto const bytes = coder.encoded_bytes(part.size());
      coder.encode(std::span{floats}.first(part.size()), payload.first(bytes));
      payload = payload.subspan(bytes);
    }
  }
}

}  // namespace fssdp
