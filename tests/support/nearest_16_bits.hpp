// SPDX-License-Identifier: Apache-2.0
/// What rounding once to a 16-bit type gives, found by comparing with the midpoint between its two
/// neighbours: exact in double, and nothing is known of how the library does it.
#pragma once

#include <cmath>
#include <cstdint>

#include "fssdp/element/dtype.hpp"

namespace support {

/// How a 16-bit type lays out its bits.
template <class T>
struct format_of;
template <>
struct format_of<fssdp::bf16> {
  static constexpr int mantissa_bits = 7;
  static constexpr int bias = 127;
};
template <>
struct format_of<fssdp::fp16> {
  static constexpr int mantissa_bits = 10;
  static constexpr int bias = 15;
};

template <class T>
inline constexpr std::uint32_t infinity_bits = (2U * format_of<T>::bias + 1U)
                                               << format_of<T>::mantissa_bits;

/// The number with these bits, without sign; infinity as if the numbers went on.
template <class T>
[[nodiscard]] double decoded(std::uint32_t bits) {
  constexpr auto places = format_of<T>::mantissa_bits;
  auto const exponent = static_cast<int>(bits >> places);
  auto const mantissa = static_cast<int>(bits & ((1U << places) - 1U));
  auto const smallest = 1 - format_of<T>::bias - places;
  return exponent == 0 ? std::ldexp(mantissa, smallest)
                       : std::ldexp(mantissa + (1 << places), smallest + exponent - 1);
}

/// Halfway between the number with these bits and the next one.
template <class T>
[[nodiscard]] double midpoint_above(std::uint32_t bits) {
  return (decoded<T>(bits) + decoded<T>(bits + 1)) / 2;
}

/// The bits of the number of type T that is nearest; of two equally near ones the even one.
/// @pre not a NaN
template <class T>
[[nodiscard]] std::uint16_t nearest_bits(double value) {
  auto const size = std::abs(value);
  auto below = std::uint32_t{0};  // the last that is not larger
  for (auto step = std::uint32_t{0x4000}; step != 0; step /= 2)
    if (below + step <= infinity_bits<T> && decoded<T>(below + step) <= size) below += step;
  auto nearest = below;
  if (below < infinity_bits<T>) {
    auto const middle = midpoint_above<T>(below);
    if (size > middle || (size == middle && below % 2 == 1)) ++nearest;
  }
  return static_cast<std::uint16_t>(nearest | (std::signbit(value) ? 0x8000U : 0U));
}

}  // namespace support
