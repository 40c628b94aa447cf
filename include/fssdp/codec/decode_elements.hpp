// SPDX-License-Identifier: Apache-2.0
/// Decodes to elements of any type.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <span>

#include "fssdp/codec/codec.hpp"
#include "fssdp/codec/encode_elements.hpp"
#include "fssdp/element/dtype.hpp"

namespace fssdp {

/// Decodes with `coder.decode` and converts to T; rounds once more where T has fewer bits than
/// float.
/// @pre payload.size() == coder.encoded_bytes(to.size()); memory does not overlap
/// @cost reads the payload once, writes every element once, no allocation
template <codec Codec, element T>
void decode_elements(Codec const& coder, std::span<std::byte const> payload,
                     std::span<T> to) noexcept {
  if constexpr (std::same_as<T, float>) {
    coder.decode(payload, to);
  } else if constexpr (detail::any_foreign<T>) {
    decode_elements(coder, payload, detail::as_native(to));
  } else {
    constexpr auto stretch = detail::stretch_elements<Codec>;
    auto floats = std::array<float, stretch>{};
    for (std::size_t first = 0; first < to.size(); first += stretch) {
      auto const part = to.subspan(first, std::min(stretch, to.size() - first));
      auto const bytes = coder.encoded_bytes(part.size());
      coder.decode(payload.first(bytes), std::span{floats}.first(part.size()));
      for (std::size_t i = 0; i < part.size(); ++i) part[i] = static_cast<T>(floats[i]);
      payload = payload.subspan(bytes);
    }
  }
}

}  // namespace fssdp
