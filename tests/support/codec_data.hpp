// SPDX-License-Identifier: Apache-2.0
/// Floats to encode: of even size, of very different size, and at the ends of what a float holds.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "fssdp/codec/codec.hpp"
#include "support/dice.hpp"

namespace support {

inline constexpr auto infinity = std::numeric_limits<float>::infinity();
inline constexpr auto not_a_number = std::numeric_limits<float>::quiet_NaN();

/// A float of a kind from 0 to 6, finite.
[[nodiscard]] inline float random_float(dice& draw, int kind) {
  auto const sign = draw.chance(50) ? 1.0F : -1.0F;
  auto const bits = [&](int first, int last) {  // of the upper half
    return sign *
           std::bit_cast<float>(static_cast<std::uint32_t>(draw.between(first, last)) << 16U |
                                static_cast<std::uint32_t>(draw.between(0, 0xffff)));
  };
  switch (kind) {
    case 0:  // any size
      return bits(0, 0x7f7f);
    case 1:  // subnormal and slightly above
      return bits(0, 0x0180);
    case 2:  // nearly too large
      return bits(0x7e80, 0x7f7f);
    case 3:  // zeroes of both signs
      return sign * 0.0F;
    case 4:  // often halfway between two codes
      return sign * std::ldexp(static_cast<float>(draw.between(0, 64)), draw.between(-4, 3));
    default:  // like gradients
      return sign * static_cast<float>(draw.between(0, 1'000'000)) *
             std::pow(10.0F, static_cast<float>(-draw.between(6, 9)));
  }
}

/// Runs of one kind each.
[[nodiscard]] inline std::vector<float> random_floats(dice& draw, std::size_t count) {
  auto floats = std::vector<float>{};
  while (floats.size() < count) {
    auto const kind = draw.between(0, 6);
    auto const run = static_cast<std::size_t>(draw.between(1, 600));
    auto const end = std::min(count, floats.size() + run);
    while (floats.size() < end) floats.push_back(random_float(draw, kind));
  }
  return floats;
}

/// The payload, in memory that held `before`.
template <fssdp::codec Codec>
[[nodiscard]] std::vector<std::byte> encoded(Codec const& coder, std::span<float const> from,
                                             std::byte before = {}) {
  auto payload = std::vector<std::byte>(coder.encoded_bytes(from.size()), before);
  coder.encode(from, payload);
  return payload;
}

/// The elements, in memory that held something else.
template <fssdp::codec Codec>
[[nodiscard]] std::vector<float> decoded(Codec const& coder, std::span<std::byte const> payload,
                                         std::size_t elements) {
  auto to = std::vector<float>(elements, 12345.0F);
  coder.decode(payload, to);
  return to;
}

/// What arrives.
template <fssdp::codec Codec>
[[nodiscard]] std::vector<float> there_and_back(Codec const& coder, std::span<float const> from) {
  return decoded(coder, encoded(coder, from), from.size());
}

/// Their bits: equal for -0 and -0, for a NaN and itself.
[[nodiscard]] inline std::vector<std::uint32_t> bits_of(std::span<float const> floats) {
  auto all = std::vector<std::uint32_t>{};
  for (auto const value : floats) all.push_back(std::bit_cast<std::uint32_t>(value));
  return all;
}

/// The greatest finite magnitude of each block.
[[nodiscard]] inline std::vector<float> largest_of_blocks(std::span<float const> floats,
                                                          std::size_t block) {
  auto all = std::vector<float>((floats.size() + block - 1) / block);
  for (std::size_t i = 0; i < floats.size(); ++i)
    if (std::isfinite(floats[i])) all[i / block] = std::max(all[i / block], std::abs(floats[i]));
  return all;
}

/// The scale at the beginning of a block, and the code of an element of the first block.
[[nodiscard]] inline float scale_at(std::span<std::byte const> payload, std::size_t offset = 0) {
  auto scale = 0.0F;
  std::memcpy(&scale, payload.data() + offset, sizeof scale);
  return scale;
}
[[nodiscard]] inline int code_at(std::span<std::byte const> payload, std::size_t i) {
  return std::to_integer<int>(payload[sizeof(float) + i]);
}

}  // namespace support
