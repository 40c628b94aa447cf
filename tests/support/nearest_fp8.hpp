// SPDX-License-Identifier: Apache-2.0
/// What rounding to an 8-bit float gives, found by looking at all of them: nothing is known of how
/// the library does it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "fssdp/element/fp8.hpp"

namespace support {

/// How an 8-bit float lays out its bits.
template <class T>
struct fp8_format_of;
template <>
struct fp8_format_of<fssdp::fp8_e4m3> {
  static constexpr int mantissa_bits = 3;
  static constexpr int bias = 7;
  static constexpr int largest = 0x7e;
  static constexpr int infinity = -1;  // there is none
};
template <>
struct fp8_format_of<fssdp::fp8_e5m2> {
  static constexpr int mantissa_bits = 2;
  static constexpr int bias = 15;
  static constexpr int largest = 0x7b;
  static constexpr int infinity = 0x7c;
};

/// The number with this code, without sign, as if the numbers went on above the largest.
template <class T>
[[nodiscard]] double decoded_fp8(int code) {
  constexpr auto places = fp8_format_of<T>::mantissa_bits;
  auto const exponent = code >> places;
  auto const mantissa = code % (1 << places);
  auto const smallest = 1 - fp8_format_of<T>::bias - places;
  return exponent == 0 ? std::ldexp(mantissa, smallest)
                       : std::ldexp(mantissa + (1 << places), smallest + exponent - 1);
}

/// The code of the nearest number; of two equally near ones the even one.
/// @pre finite
template <class T>
[[nodiscard]] int nearest_fp8(double value) {
  auto const end = decoded_fp8<T>(fp8_format_of<T>::largest);
  auto const size = std::min(std::abs(value), end);  // differences of larger ones are rounded
  auto nearest = 0;
  for (int code = 1; code <= fp8_format_of<T>::largest; ++code) {
    auto const here = std::abs(decoded_fp8<T>(code) - size);
    auto const there = std::abs(decoded_fp8<T>(nearest) - size);
    if (here < there || (here == there && code % 2 == 0)) nearest = code;
  }
  return nearest | (std::signbit(value) ? 0x80 : 0);
}

}  // namespace support
