// SPDX-License-Identifier: Apache-2.0
/// bf16 as a software type: the range of a float, 8 significant bits.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "fssdp/core/dtype.hpp"
#include "fssdp/element/round_to_odd.hpp"

namespace fssdp {

/// The upper half of a float: 8 bits of exponent, 7 of mantissa. Rounds to nearest, ties to even;
/// numbers that are too large become infinity, and NaN stays NaN.
class bf16 {
 public:
  constexpr bf16() = default;
  constexpr explicit bf16(float value) : bits_{round(std::bit_cast<std::uint32_t>(value))} {}
  constexpr explicit bf16(double value) : bf16{detail::round_to_odd(value)} {}
  constexpr explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16U);
  }
  constexpr explicit operator double() const { return static_cast<float>(*this); }

  [[nodiscard]] static constexpr bf16 from_bits(std::uint16_t bits) {
    auto value = bf16{};
    value.bits_ = bits;
    return value;
  }
  [[nodiscard]] constexpr std::uint16_t bits() const { return bits_; }

 private:
  static constexpr std::uint16_t round(std::uint32_t bits) {
    auto const is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
    if (is_nan) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);  // a quiet NaN
    auto const odd = (bits >> 16U) & 1U;
    return static_cast<std::uint16_t>((bits + 0x7fffU + odd) >> 16U);
  }

  std::uint16_t bits_ = 0;
};

template <>
inline constexpr dtype dtype_of<bf16> = dtype::bf16;

static_assert(sizeof(bf16) == 2 && std::is_trivially_copyable_v<bf16>);

}  // namespace fssdp
