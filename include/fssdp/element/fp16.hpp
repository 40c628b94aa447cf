// SPDX-License-Identifier: Apache-2.0
/// fp16 as a software type: 11 significant bits, up to 65504.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "fssdp/core/dtype.hpp"
#include "fssdp/element/round_to_odd.hpp"

namespace fssdp {

/// IEEE binary16: 5 bits of exponent, 10 of mantissa, with subnormal numbers. Rounds to nearest,
/// ties to even; numbers that are too large become infinity, and NaN stays NaN.
class fp16 {
 public:
  constexpr fp16() = default;
  constexpr explicit fp16(float value) : bits_{round(std::bit_cast<std::uint32_t>(value))} {}
  constexpr explicit fp16(double value) : fp16{detail::round_to_odd(value)} {}
  constexpr explicit operator float() const {
    auto const sign = (bits_ & 0x8000U) << 16U;
    auto const magnitude = bits_ & 0x7fffU;
    auto const subnormal = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24F);
    auto const normal = (magnitude << 13U) + exponent_shift;
    auto const finite = magnitude < smallest_normal ? subnormal : normal;
    return std::bit_cast<float>(sign |
                                (magnitude < infinity ? finite : 0x7f800000U | magnitude << 13U));
  }
  constexpr explicit operator double() const { return static_cast<float>(*this); }

  [[nodiscard]] static constexpr fp16 from_bits(std::uint16_t bits) {
    auto value = fp16{};
    value.bits_ = bits;
    return value;
  }
  [[nodiscard]] constexpr std::uint16_t bits() const { return bits_; }

 private:
  static constexpr std::uint32_t infinity = 0x7c00;
  static constexpr std::uint32_t smallest_normal = 0x0400;
  static constexpr std::uint32_t exponent_shift = (127U - 15U) << 23U;  // between the two biases

  static constexpr std::uint16_t round(std::uint32_t bits) {
    auto const sign = (bits >> 16U) & 0x8000U;
    auto const magnitude = bits & 0x7fffffffU;
    return static_cast<std::uint16_t>(sign | round_magnitude(magnitude));
  }
  static constexpr std::uint32_t round_magnitude(std::uint32_t bits) {
    if (bits > 0x7f800000U) return infinity | 0x200U | (bits >> 13U & 0x1ffU);  // a quiet NaN
    if (bits >= 0x477ff000U) return infinity;  // 65520, halfway to the next power of two, or more
    if (bits < exponent_shift + 0x00800000U) {
      // Below 2^-14: units of 2^-24, the last place of 0.5, so the addition rounds.
      auto const sum = std::bit_cast<float>(bits) + 0.5F;
      return std::bit_cast<std::uint32_t>(sum) - std::bit_cast<std::uint32_t>(0.5F);
    }
    auto const odd = (bits >> 13U) & 1U;
    return (bits - exponent_shift + 0xfffU + odd) >> 13U;
  }

  std::uint16_t bits_ = 0;
};

template <>
inline constexpr dtype dtype_of<fp16> = dtype::fp16;

static_assert(sizeof(fp16) == 2 && std::is_trivially_copyable_v<fp16>);

}  // namespace fssdp
