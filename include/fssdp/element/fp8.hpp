// SPDX-License-Identifier: Apache-2.0
/// fp8 as software types: e4m3 with 4 significant bits up to 448, e5m2 with 3 up to 57344.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "fssdp/core/dtype.hpp"
#include "fssdp/element/choose.hpp"
#include "fssdp/element/fp8_instructions.hpp"
#include "fssdp/element/round_to_odd.hpp"

namespace fssdp {

namespace detail {

/// The bit layout of the 8-bit floats of the Open Compute Project, without the sign.
struct e4m3_format {
  static constexpr std::uint32_t mantissa_bits = 3;
  static constexpr std::uint32_t bias = 7;
  static constexpr std::uint32_t largest = 0x7e;   // 448
  static constexpr std::uint32_t infinity = 0x7f;  // the format has none: this is NaN
};
struct e5m2_format {
  static constexpr std::uint32_t mantissa_bits = 2;
  static constexpr std::uint32_t bias = 15;
  static constexpr std::uint32_t largest = 0x7b;  // 57344
  static constexpr std::uint32_t infinity = 0x7c;
};

}  // namespace detail

/// An 8-bit float with subnormal numbers. Rounds to nearest, ties to even. A finite number that is
/// too large becomes the largest one; infinity stays infinity, or becomes NaN if the format has
/// none; NaN stays NaN; zero keeps its sign.
template <class Format>
class fp8 {
 public:
  constexpr fp8() = default;
  // Forced inline, as compilers may find it too large for loops: three times as fast.
  [[gnu::always_inline]] constexpr explicit fp8(float value)
      : bits_{round(std::bit_cast<std::uint32_t>(value))} {}
  constexpr explicit fp8(double value) : fp8{detail::round_to_odd(value)} {}
  [[gnu::always_inline]] constexpr explicit operator float() const {
#if FSSDP_HAS_FP8_INSTRUCTIONS
    if (!std::is_constant_evaluated()) return detail::floats_of_fp8<Format>(bits_).first;
#endif
    return by_bits();
  }
  /// The same conversion with integer operations: the bits of a NaN are the host's everywhere.
  [[nodiscard, gnu::always_inline]] constexpr float by_bits() const {
    auto const magnitude = bits_ & 0x7fU;
    auto const exponent = magnitude >> mantissa_bits;
    auto const implicit = std::min(exponent, 1U) << mantissa_bits;
    auto const mantissa = static_cast<int>((magnitude & mantissa_mask) | implicit);
    auto const last_place = (std::max(exponent, 1U) + 127U - Format::bias - mantissa_bits) << 23U;
    auto const number = static_cast<float>(mantissa) * std::bit_cast<float>(last_place);
    constexpr auto last_number = Format::infinity == nan ? Format::largest : Format::infinity;
    auto const beyond = detail::choose(magnitude > Format::largest, float_infinity, 0) |
                        detail::choose(magnitude > last_number, 0x00400000U, 0);  // a quiet NaN
    auto const sign = (bits_ & 0x80U) << 24U;
    return std::bit_cast<float>(sign | beyond | std::bit_cast<std::uint32_t>(number));
  }
  constexpr explicit operator double() const { return static_cast<float>(*this); }

  [[nodiscard]] static constexpr fp8 from_bits(std::uint8_t bits) {
    auto value = fp8{};
    value.bits_ = bits;
    return value;
  }
  [[nodiscard]] constexpr std::uint8_t bits() const { return bits_; }

  /// The largest finite number, and the smallest above zero.
  [[nodiscard]] static constexpr fp8 largest() { return from_bits(Format::largest); }
  [[nodiscard]] static constexpr fp8 smallest() { return from_bits(1); }
  /// The number of significant bits of a normal number.
  [[nodiscard]] static constexpr int significant_bits() { return mantissa_bits + 1; }

 private:
  static constexpr std::uint32_t mantissa_bits = Format::mantissa_bits;
  static constexpr std::uint32_t mantissa_mask = (1U << mantissa_bits) - 1U;
  static constexpr std::uint32_t nan = 0x7f;
  static constexpr std::uint32_t float_infinity = 0x7f800000;

  // There are no branches here or in the conversion to float, so that loops are vectorized.
  [[gnu::always_inline]] static constexpr std::uint8_t round(std::uint32_t bits) {
#if FSSDP_HAS_FP8_INSTRUCTIONS
    if (!std::is_constant_evaluated()) {
      auto const size = bits & 0x7fffffffU;
      auto const special =
          (bits >> 24U & 0x80U) | (size == float_infinity ? Format::infinity : nan);
      auto const finite = detail::fp8_of_finite<Format>({std::bit_cast<float>(bits), 0.0F});
      return static_cast<std::uint8_t>(size < float_infinity ? finite : special);
    }
#endif
    constexpr auto end = std::bit_cast<std::uint32_t>(static_cast<float>(largest()));
    constexpr auto smallest_normal = (128U - Format::bias) << 23U;
    constexpr auto dropped = 23U - mantissa_bits;  // bits of the mantissa
    auto const magnitude = bits & 0x7fffffffU;
    auto const saturated = detail::choose(below(end, magnitude), end, magnitude);
    auto const exponent_bits = saturated & float_infinity;
    auto const exponent =
        detail::choose(below(exponent_bits, smallest_normal), smallest_normal, exponent_bits);
    // The last place of this float is that of the result, so the addition rounds, ties to even.
    auto const shift = exponent + (dropped << 23U);
    auto const sum = std::bit_cast<float>(saturated) + std::bit_cast<float>(shift);
    auto const last_places = std::bit_cast<std::uint32_t>(sum) - shift;
    auto const number = ((exponent - smallest_normal) >> dropped) + last_places;
    auto const beyond = detail::choose(below(float_infinity - 1, magnitude),
                                       Format::infinity - Format::largest, 0) +
                        detail::choose(below(float_infinity, magnitude), nan - Format::infinity, 0);
    auto const sign = bits >> 24U & 0x80U;
    return static_cast<std::uint8_t>(sign | (number + beyond));
  }
  /// a < b for numbers of 31 bits, as signed integers, which every processor can compare in
  /// vectors.
  static constexpr bool below(std::uint32_t a, std::uint32_t b) {
    return static_cast<std::int32_t>(a) < static_cast<std::int32_t>(b);
  }

  std::uint8_t bits_ = 0;
};

/// The two formats of OCP: 4 bits of exponent and 3 of mantissa, or 5 and 2.
using fp8_e4m3 = fp8<detail::e4m3_format>;
using fp8_e5m2 = fp8<detail::e5m2_format>;

template <>
inline constexpr dtype dtype_of<fp8_e4m3> = dtype::e4m3;
template <>
inline constexpr dtype dtype_of<fp8_e5m2> = dtype::e5m2;

static_assert(sizeof(fp8_e4m3) == 1 && std::is_trivially_copyable_v<fp8_e4m3>);
static_assert(sizeof(fp8_e5m2) == 1 && std::is_trivially_copyable_v<fp8_e5m2>);

}  // namespace fssdp
