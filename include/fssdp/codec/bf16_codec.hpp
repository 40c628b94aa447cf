// SPDX-License-Identifier: Apache-2.0
/// Two bytes per element: every float as the nearest bf16.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <span>

#include "fssdp/codec/codec.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/element/bf16.hpp"
#include "fssdp/element/payload_code.hpp"

namespace fssdp {

/// Rounds to nearest, ties to even. There is no scale, so a block is one element. Keeps the sign of
/// zero, subnormal numbers (in steps of 2^-133), infinities, and NaN as NaN. Numbers of 0x1.ffp127
/// and more become infinity, as in bf16 itself.
struct bf16_codec {
  static constexpr std::size_t block_elements = 1;

  [[nodiscard]] static std::size_t encoded_bytes(std::size_t elements) {
    constexpr auto most = std::numeric_limits<std::size_t>::max() / 2 / sizeof(bf16);
    detail::require(elements <= most, "bf16_codec: ", elements, " elements; expected at most ",
                    most);
    return elements * sizeof(bf16);
  }

  static void encode(std::span<float const> from, std::span<std::byte> payload) noexcept {
    auto* out = payload.data();
    auto i = std::size_t{0};
    for (; i + group <= from.size(); i += group)
      out = encode_group(from.subspan(i).template first<group>(), out);
    for (; i < from.size(); ++i) {
      auto const code = bf16{from[i]};
      std::memcpy(out, &code, sizeof code);
      out += sizeof code;
    }
  }

  static void decode(std::span<std::byte const> payload, std::span<float> to) noexcept {
    auto const* in = payload.data();
    auto i = std::size_t{0};
    for (; i + group <= to.size(); i += group)
      in = decode_group(in, to.subspan(i).template first<group>());
    for (; i < to.size(); ++i) {
      auto code = bf16{};
      std::memcpy(&code, in, sizeof code);
      to[i] = static_cast<float>(code);
      in += sizeof code;
    }
  }

  /// 2^-8 of the element, or half a step of the subnormal numbers; no bound for numbers that become
  /// infinity.
  [[nodiscard]] static double error_bound(float element, float /*largest*/) noexcept {
    auto const magnitude = std::abs(static_cast<double>(element));
    if (magnitude >= 0x1.ffp127) return std::numeric_limits<double>::infinity();
    return std::max(magnitude * 0x1p-8, 0x1p-134);
  }

 private:
  // A loop of fixed length that writes to local memory is vectorized.
  static constexpr std::size_t group = 64;

  static std::byte* encode_group(std::span<float const, group> from, std::byte* out) noexcept {
    auto codes = std::array<bf16, group>{};
    for (std::size_t i = 0; i < group; ++i) codes[i] = bf16{from[i]};
    std::memcpy(out, codes.data(), sizeof codes);
    return out + sizeof codes;
  }
  static std::byte const* decode_group(std::byte const* in, std::span<float, group> to) noexcept {
    auto codes = std::array<bf16, group>{};
    std::memcpy(codes.data(), in, sizeof codes);
    for (std::size_t i = 0; i < group; ++i) to[i] = static_cast<float>(codes[i]);
    return in + sizeof codes;
  }
};

static_assert(codec<bf16_codec>);

namespace detail {

template <>
inline constexpr std::optional<payload_code> code_on_devices<bf16_codec> = payload_code::bf16;

}  // namespace detail

}  // namespace fssdp
