// SPDX-License-Identifier: Apache-2.0
/// What both 16-bit types promise: every bit pattern survives, and every rounding is the nearest.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "catch.hpp"
#include "support/dice.hpp"
#include "support/nearest_16_bits.hpp"

namespace support {

/// All laws of a 16-bit type; a section each.
template <class T>
class sixteen_bits_laws {
 public:
  static void check() {
    SECTION("every bit pattern survives the way through float and double") { check_patterns(); }
    SECTION("floats at, beside and between all neighbours round to nearest, ties to even") {
      check_midpoints();
    }
    SECTION("floats of any bits round to nearest") { check_random_floats(); }
    SECTION("doubles round once, also where a float in between would round twice") {
      check_doubles();
    }
    SECTION("NaN stays NaN, with its sign and its upper bits; infinity and zero keep theirs") {
      check_special();
    }
  }

 private:
  static constexpr auto infinity = infinity_bits<T>;
  static constexpr auto quiet = 1U << (format_of<T>::mantissa_bits - 1);

  [[nodiscard]] static T pattern(std::uint32_t bits) {
    return T::from_bits(static_cast<std::uint16_t>(bits));
  }

  static void check_patterns() {
    auto wrong = 0;
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      auto const magnitude = bits & 0x7fffU;
      auto const as_float = static_cast<float>(pattern(bits));
      auto const as_double = static_cast<double>(pattern(bits));
      if (magnitude > infinity) {
        auto const expected = bits | quiet;  // a signalling NaN becomes a quiet one
        wrong += !std::isnan(as_float) || !std::isnan(as_double) ? 1 : 0;
        wrong += T{as_float}.bits() != expected || T{as_double}.bits() != expected ? 1 : 0;
        continue;
      }
      auto const size =
          magnitude == infinity ? std::numeric_limits<double>::infinity() : decoded<T>(magnitude);
      wrong += std::abs(as_double) != size || std::abs(as_float) != size ? 1 : 0;
      auto const negative = bits >= 0x8000;
      wrong += std::signbit(as_float) != negative || std::signbit(as_double) != negative ? 1 : 0;
      wrong += T{as_float}.bits() != bits || T{as_double}.bits() != bits ? 1 : 0;
    }
    REQUIRE(wrong == 0);
  }

  template <class Float>
  [[nodiscard]] static bool rounds(Float value) {
    return T{value}.bits() == nearest_bits<T>(static_cast<double>(value)) &&
           T{-value}.bits() == nearest_bits<T>(static_cast<double>(-value));
  }

  static void check_midpoints() {
    constexpr auto end = std::numeric_limits<float>::infinity();
    auto wrong = 0;
    for (std::uint32_t bits = 0; bits < infinity; ++bits)
      for (auto const exact : {decoded<T>(bits), midpoint_above<T>(bits)}) {
        auto const value = static_cast<float>(exact);
        for (auto const near : {value, std::nextafter(value, 0.0F), std::nextafter(value, end)})
          wrong += rounds(near) ? 0 : 1;
      }
    REQUIRE(wrong == 0);
  }

  static void check_random_floats() {
    auto const seed = std::uint64_t{7};
    CAPTURE(seed);
    auto draw = dice{seed};
    auto wrong = 0;
    for (int i = 0; i < 100'000; ++i) {
      auto const high = static_cast<std::uint32_t>(draw.between(0, 0xffff));
      auto const low = static_cast<std::uint32_t>(draw.between(0, 0xffff));
      auto const value = std::bit_cast<float>(high << 16U | low);
      wrong += std::isnan(value) || rounds(value) ? 0 : 1;
    }
    REQUIRE(wrong == 0);
  }

  static void check_doubles() {
    constexpr auto end = std::numeric_limits<double>::infinity();
    auto const seed = std::uint64_t{9};
    CAPTURE(seed);
    auto draw = dice{seed};
    auto wrong = 0;
    auto rounded_twice = 0;  // how often the way over float would have been wrong
    auto const check = [&](double value) {
      wrong += rounds(value) ? 0 : 1;
      rounded_twice += T{static_cast<float>(value)}.bits() != nearest_bits<T>(value) ? 1 : 0;
    };
    for (std::uint32_t bits = 0; bits < infinity; ++bits) {
      auto const middle = midpoint_above<T>(bits);
      auto const near = 1 + draw.between(1, 1000) * 0x1p-40;  // a float does not see it
      for (auto const value : {middle, std::nextafter(middle, 0.0), std::nextafter(middle, end),
                               middle * near, middle / near})
        check(value);
    }
    REQUIRE(wrong == 0);
    REQUIRE(rounded_twice > static_cast<int>(infinity) / 2);
    for (int i = 0; i < 100'000; ++i) {
      auto const part = draw.between(0, 1'000'000) * 1e-6 + draw.between(0, 1'000'000) * 1e-12;
      check(std::ldexp(part, draw.between(-170, 140)));
    }
    for (auto const value : {std::numeric_limits<double>::max(), 0x1p128, 0x1.fffffffp127,
                             0x1.ffffff7p127, std::numeric_limits<double>::denorm_min(), 1e-300})
      check(value);
    REQUIRE(wrong == 0);
  }

  static void check_special() {
    auto const nan = [](std::uint32_t bits) { return T{std::bit_cast<float>(bits)}.bits(); };
    auto const upper = [](std::uint32_t bits) {  // of the mantissa
      return bits >> (23 - format_of<T>::mantissa_bits) &
             ((1U << format_of<T>::mantissa_bits) - 1U);
    };
    for (auto const payload : {0x000001U, 0x400000U, 0x3fffffU, 0x7fffffU, 0x155555U}) {
      CAPTURE(payload);
      REQUIRE(nan(0x7f800000U | payload) == (infinity | quiet | upper(payload)));
      REQUIRE(nan(0xff800000U | payload) == (0x8000U | infinity | quiet | upper(payload)));
    }
    REQUIRE(std::isnan(static_cast<double>(T{std::numeric_limits<double>::quiet_NaN()})));
    REQUIRE(std::isnan(static_cast<double>(T{std::numeric_limits<double>::signaling_NaN()})));
    REQUIRE(T{-std::numeric_limits<double>::quiet_NaN()}.bits() >= (0x8000U | infinity));
    REQUIRE(T{std::numeric_limits<float>::infinity()}.bits() == infinity);
    REQUIRE(T{-std::numeric_limits<float>::infinity()}.bits() == (0x8000U | infinity));
    REQUIRE(T{std::numeric_limits<double>::infinity()}.bits() == infinity);
    REQUIRE(T{-std::numeric_limits<double>::infinity()}.bits() == (0x8000U | infinity));
    REQUIRE(T{0.0F}.bits() == 0);
    REQUIRE(T{-0.0F}.bits() == 0x8000);
    REQUIRE(T{-0.0}.bits() == 0x8000);
    REQUIRE(T{-1e-300}.bits() == 0x8000);
    REQUIRE(T{}.bits() == 0);
  }
};

}  // namespace support
