// SPDX-License-Identifier: Apache-2.0
/// Codecs with one byte per element and one scale per block: the common part of fp8 and int8.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "fssdp/codec/codec.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/element/payload_code.hpp"

namespace fssdp {

namespace detail {

/// The rule that encodes a block: `scale(largest)`, for the largest finite magnitude of the block,
/// returns a normal float whose reciprocal is normal, too; `code(x)` encodes an element divided by
/// the scale; `value(code)` decodes it, to be multiplied by the scale; `error(x)` bounds
/// |value(code(x)) - x|.
template <class Rule>
concept scaling_rule = requires(float x, double magnitude, std::uint8_t code) {
  { Rule::scale(x) } -> std::same_as<float>;
  { Rule::code(x) } -> std::same_as<std::uint8_t>;
  { Rule::value(code) } -> std::same_as<float>;
  { Rule::error(magnitude) } -> std::same_as<double>;
};

}  // namespace detail

/// Blocks of 256 elements; the last one may be shorter. A payload has for each block its scale, a
/// float, and one byte per element: 260 bytes, so that in an aligned payload the codes of all
/// blocks begin at multiples of four. A shorter block has its own scale. Decoding does not round: a
/// code times its scale is a float, the same on every processor that does not flush subnormals to
/// zero.
template <detail::scaling_rule Rule>
struct scaled_codec {
  static constexpr std::size_t block_elements = detail::payload_block_elements;

  [[nodiscard]] static std::size_t encoded_bytes(std::size_t elements) {
    constexpr auto most = std::numeric_limits<std::size_t>::max() / 4;
    detail::require(elements <= most, "codec: ", elements, " elements; expected at most ", most);
    auto const blocks = elements / block_elements + (elements % block_elements == 0 ? 0 : 1);
    return elements + blocks * sizeof(float);
  }

  static void encode(std::span<float const> from, std::span<std::byte> payload) noexcept {
    auto* out = payload.data();
    auto first = std::size_t{0};
    for (; first + block_elements <= from.size(); first += block_elements)
      out = encode_block(from.subspan(first).template first<block_elements>(), block_elements, out);
    if (first == from.size()) return;
    auto padded = std::array<float, block_elements>{};
    auto const rest = from.subspan(first);
    std::ranges::copy(rest, padded.begin());
    encode_block(padded, rest.size(), out);
  }

  static void decode(std::span<std::byte const> payload, std::span<float> to) noexcept {
    auto const* in = payload.data();
    auto first = std::size_t{0};
    for (; first + block_elements <= to.size(); first += block_elements)
      in = decode_block(in, block_elements, to.subspan(first).template first<block_elements>());
    if (first == to.size()) return;
    auto padded = std::array<float, block_elements>{};
    auto const rest = to.subspan(first);
    decode_block(in, rest.size(), padded);
    std::copy_n(padded.begin(), rest.size(), rest.begin());
  }

  [[nodiscard]] static double error_bound(float element, float largest) noexcept {
    auto const scale = static_cast<double>(Rule::scale(largest));
    return scale * Rule::error(std::abs(static_cast<double>(element)) / scale);
  }

 private:
  using block = std::span<float const, block_elements>;

  // These loops have a fixed length and read or write local memory: they are vectorized.
  [[nodiscard]] static float largest_finite(block from) noexcept {
    constexpr auto infinity = std::int32_t{0x7f800000};
    auto largest = std::int32_t{0};
    for (std::size_t i = 0; i < block_elements; ++i) {
      auto const magnitude = std::bit_cast<std::int32_t>(from[i]) & 0x7fffffff;
      largest = std::max(largest, magnitude < infinity ? magnitude : 0);
    }
    return std::bit_cast<float>(largest);
  }

  static std::byte* encode_block(block from, std::size_t elements, std::byte* out) noexcept {
    auto const scale = Rule::scale(largest_finite(from));
    auto const reciprocal = 1 / scale;
    auto codes = std::array<std::uint8_t, block_elements>{};
    for (std::size_t i = 0; i < block_elements; ++i) codes[i] = Rule::code(from[i] * reciprocal);
    std::memcpy(out, &scale, sizeof scale);
    std::memcpy(out + sizeof scale, codes.data(), elements);
    return out + sizeof scale + elements;
  }

  static std::byte const* decode_block(std::byte const* in, std::size_t elements,
                                       std::span<float, block_elements> to) noexcept {
    auto scale = 0.0F;
    auto codes = std::array<std::uint8_t, block_elements>{};
    std::memcpy(&scale, in, sizeof scale);
    std::memcpy(codes.data(), in + sizeof scale, elements);
    for (std::size_t i = 0; i < block_elements; ++i) to[i] = Rule::value(codes[i]) * scale;
    return in + sizeof scale + elements;
  }
};

}  // namespace fssdp
