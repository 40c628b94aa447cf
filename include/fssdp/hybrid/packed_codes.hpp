// SPDX-License-Identifier: Apache-2.0
/// Packs several codes of few bits into a byte.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "fssdp/hybrid/fixed_parts.hpp"

namespace fssdp::detail {

/// The codes of the elements of a part.
using code_array = std::array<std::uint8_t, part_elements>;

/// Combines pairs of codes into codes of twice as many bits, the first one in the lower half.
template <std::size_t bits, std::size_t codes>
[[nodiscard]] inline auto join_codes(std::array<std::uint8_t, codes> const& all) {
  auto joined = std::array<std::uint8_t, codes / 2>{};
  for (std::size_t i = 0; i < codes / 2; ++i)
    joined[i] = static_cast<std::uint8_t>(all[2 * i] | all[2 * i + 1] << bits);
  if constexpr (bits == 4)
    return joined;
  else
    return join_codes<2 * bits>(joined);
}
/// The inverse: splits bytes into codes.
template <std::size_t bits, std::size_t codes, std::size_t width = 4>
[[nodiscard]] inline code_array split_codes(std::array<std::uint8_t, codes> const& all) {
  auto split = std::array<std::uint8_t, 2 * codes>{};
  for (std::size_t i = 0; i < codes; ++i) {
    split[2 * i] = static_cast<std::uint8_t>(all[i] & ((1U << width) - 1));
    split[2 * i + 1] = static_cast<std::uint8_t>(all[i] >> width);
  }
  if constexpr (width == bits)
    return split;
  else
    return split_codes<bits, 2 * codes, width / 2>(split);
}

/// Codes of 1, 2, 4 or 8 bits; the first code of a byte is in its lowest bits.
template <std::size_t bits>
struct packed_codes {
  [[nodiscard]] static constexpr std::size_t bytes(std::size_t codes) {
    return (codes * bits + 7) / 8;
  }
  /// The bytes of a payload from those of the given code on.
  template <class Bytes>
  [[nodiscard]] static Bytes part_of(Bytes payload, std::size_t first) {
    auto const rest = payload.subspan(first * bits / 8);
    return rest.first(std::min(rest.size(), bytes(part_elements)));
  }
  /// @param to the bytes of the first codes; at most those of all codes
  static void pack(code_array const& codes, std::span<std::byte> to) {
    if constexpr (bits == 8)
      std::memcpy(to.data(), codes.data(), to.size());
    else
      std::memcpy(to.data(), join_codes<bits>(codes).data(), to.size());
  }
  /// Codes beyond the end of `from` are 0.
  [[nodiscard]] static code_array unpack(std::span<std::byte const> from) {
    auto packed = std::array<std::uint8_t, bytes(part_elements)>{};
    std::memcpy(packed.data(), from.data(), from.size());
    if constexpr (bits == 8)
      return packed;
    else
      return split_codes<bits>(packed);
  }
};

}  // namespace fssdp::detail
