// SPDX-License-Identifier: Apache-2.0
/// fp8: every code, every rounding, subnormal numbers included.
#include "fssdp/element/fp8.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "catch.hpp"
#include "support/dice.hpp"
#include "support/nearest_fp8.hpp"

using fssdp::fp8_e4m3;
using fssdp::fp8_e5m2;
using support::decoded_fp8;
using support::fp8_format_of;

namespace {

constexpr auto infinity = std::numeric_limits<float>::infinity();
constexpr auto not_a_number = std::numeric_limits<float>::quiet_NaN();

template <class T>
[[nodiscard]] float number(int code) {
  return static_cast<float>(T::from_bits(static_cast<std::uint8_t>(code)));
}

template <class T>
[[nodiscard]] bool rounds(float value) {
  return T{value}.bits() == support::nearest_fp8<T>(static_cast<double>(value)) &&
         T{-value}.bits() == support::nearest_fp8<T>(static_cast<double>(-value));
}

}  // namespace

TEMPLATE_TEST_CASE("every code of fp8 is the number of its format", "", fp8_e4m3, fp8_e5m2) {
  using format = fp8_format_of<TestType>;
  auto wrong = 0;
  for (int code = 0; code < 0x100; ++code) {
    auto const magnitude = code % 0x80;
    auto const value = number<TestType>(code);
    wrong += std::signbit(value) != (code >= 0x80) ? 1 : 0;
    if (magnitude <= format::largest)
      wrong += std::abs(static_cast<double>(value)) != decoded_fp8<TestType>(magnitude) ? 1 : 0;
    else if (magnitude == format::infinity)
      wrong += std::abs(value) != infinity ? 1 : 0;
    else
      wrong += !std::isnan(value) ? 1 : 0;
  }
  REQUIRE(wrong == 0);
}

TEMPLATE_TEST_CASE("every code of fp8 survives the way through float", "", fp8_e4m3, fp8_e5m2) {
  auto wrong = 0;
  for (int code = 0; code < 0x100; ++code) {
    auto const value = number<TestType>(code);
    auto const expected = std::isnan(value) ? code | 0x7f : code;  // there is one NaN of each sign
    wrong += TestType{value}.bits() != expected ? 1 : 0;
  }
  REQUIRE(wrong == 0);
}

TEMPLATE_TEST_CASE("floats at, beside and between all neighbours round to the nearest fp8", "",
                   fp8_e4m3, fp8_e5m2) {
  auto wrong = 0;
  for (int code = 0; code <= fp8_format_of<TestType>::largest; ++code) {
    auto const here = decoded_fp8<TestType>(code);
    for (auto const exact : {here, (here + decoded_fp8<TestType>(code + 1)) / 2}) {
      auto const value = static_cast<float>(exact);
      for (auto const near : {value, std::nextafter(value, 0.0F), std::nextafter(value, infinity)})
        wrong += rounds<TestType>(near) ? 0 : 1;
    }
  }
  REQUIRE(wrong == 0);
}

TEMPLATE_TEST_CASE("floats of any bits round to the nearest fp8", "", fp8_e4m3, fp8_e5m2) {
  auto const seed = std::uint64_t{11};
  CAPTURE(seed);
  auto draw = support::dice{seed};
  auto wrong = 0;
  for (int i = 0; i < 20'000; ++i) {
    // Half of them of a size that fp8 has.
    auto const high = draw.chance(50) ? draw.between(0, 0x7fff) : draw.between(0x3600, 0x4800);
    auto const bits = static_cast<std::uint32_t>(high << 16 | draw.between(0, 0xffff));
    auto const value = std::bit_cast<float>(bits);
    wrong += !std::isfinite(value) || rounds<TestType>(value) ? 0 : 1;
  }
  REQUIRE(wrong == 0);
}

TEST_CASE("e4m3 has four significant bits, ends at 448 and has no infinity") {
  REQUIRE(fp8_e4m3{1.0F}.bits() == 0x38);
  REQUIRE(fp8_e4m3{-1.75F}.bits() == 0xbe);
  REQUIRE(fp8_e4m3{448.0F}.bits() == 0x7e);
  REQUIRE(fp8_e4m3{480.0F}.bits() == 0x7e);  // what would come next
  REQUIRE(fp8_e4m3{-1e30F}.bits() == 0xfe);
  REQUIRE(fp8_e4m3{std::numeric_limits<float>::max()}.bits() == 0x7e);
  REQUIRE(fp8_e4m3{infinity}.bits() == 0x7f);
  REQUIRE(fp8_e4m3{-infinity}.bits() == 0xff);
  REQUIRE(fp8_e4m3{17.0F}.bits() == 0x58);      // between 16 and 18, to even: 16
  REQUIRE(fp8_e4m3{19.0F}.bits() == 0x5a);      // between 18 and 20, to even: 20
  REQUIRE(fp8_e4m3{0x1p-6F}.bits() == 0x08);    // the smallest normal one
  REQUIRE(fp8_e4m3{0x1.cp-7F}.bits() == 0x07);  // the largest subnormal one
  REQUIRE(fp8_e4m3{0x1.ep-7F}.bits() == 0x08);  // between them, to even
  REQUIRE(fp8_e4m3{0x1p-9F}.bits() == 0x01);
  REQUIRE(fp8_e4m3{0x1p-10F}.bits() == 0x00);  // between it and zero, to even
  REQUIRE(fp8_e4m3{std::nextafter(0x1p-10F, 1.0F)}.bits() == 0x01);
  REQUIRE(fp8_e4m3{0x1.8p-9F}.bits() == 0x02);
  REQUIRE(static_cast<float>(fp8_e4m3::largest()) == 448.0F);
  REQUIRE(static_cast<float>(fp8_e4m3::smallest()) == 0x1p-9F);
  REQUIRE(fp8_e4m3::significant_bits() == 4);
}

TEST_CASE("e5m2 has three significant bits, ends at 57344 and keeps infinity") {
  REQUIRE(fp8_e5m2{1.0F}.bits() == 0x3c);
  REQUIRE(fp8_e5m2{-1.75F}.bits() == 0xbf);
  REQUIRE(fp8_e5m2{57344.0F}.bits() == 0x7b);
  REQUIRE(fp8_e5m2{65536.0F}.bits() == 0x7b);  // what would come next
  REQUIRE(fp8_e5m2{-1e30F}.bits() == 0xfb);
  REQUIRE(fp8_e5m2{infinity}.bits() == 0x7c);
  REQUIRE(fp8_e5m2{-infinity}.bits() == 0xfc);
  REQUIRE(fp8_e5m2{9.0F}.bits() == 0x48);        // between 8 and 10, to even: 8
  REQUIRE(fp8_e5m2{11.0F}.bits() == 0x4a);       // between 10 and 12, to even: 12
  REQUIRE(fp8_e5m2{0x1p-14F}.bits() == 0x04);    // the smallest normal one
  REQUIRE(fp8_e5m2{0x1.8p-15F}.bits() == 0x03);  // the largest subnormal one
  REQUIRE(fp8_e5m2{0x1.cp-15F}.bits() == 0x04);  // between them, to even
  REQUIRE(fp8_e5m2{0x1p-16F}.bits() == 0x01);
  REQUIRE(fp8_e5m2{0x1p-17F}.bits() == 0x00);  // between it and zero, to even
  REQUIRE(fp8_e5m2{std::nextafter(0x1p-17F, 1.0F)}.bits() == 0x01);
  REQUIRE(static_cast<float>(fp8_e5m2::largest()) == 57344.0F);
  REQUIRE(static_cast<float>(fp8_e5m2::smallest()) == 0x1p-16F);
  REQUIRE(fp8_e5m2::significant_bits() == 3);
}

TEMPLATE_TEST_CASE("a double just beside a midpoint rounds to the nearest fp8, not to even", "",
                   fp8_e4m3, fp8_e5m2) {
  auto wrong = 0;
  for (int code = 0; code < fp8_format_of<TestType>::largest; ++code) {
    auto const middle = (decoded_fp8<TestType>(code) + decoded_fp8<TestType>(code + 1)) / 2;
    wrong += TestType{std::nextafter(middle, 0.0)}.bits() == code ? 0 : 1;
    wrong += TestType{std::nextafter(middle, 1e9)}.bits() == code + 1 ? 0 : 1;
    wrong += TestType{-std::nextafter(middle, 1e9)}.bits() == (0x80 | (code + 1)) ? 0 : 1;
  }
  REQUIRE(wrong == 0);
}

TEMPLATE_TEST_CASE("finite doubles beyond every float become the largest fp8, infinity does not",
                   "", fp8_e4m3, fp8_e5m2) {
  constexpr auto endless = std::numeric_limits<double>::infinity();
  for (auto const value : {0x1.fffffep127, 0x1.ffffffp127, 0x1p128, 0x1p200, 1e300,
                           std::numeric_limits<double>::max()}) {
    CAPTURE(value);
    REQUIRE(TestType{value}.bits() == TestType::largest().bits());
    REQUIRE(TestType{-value}.bits() == (0x80 | TestType::largest().bits()));
  }
  REQUIRE(TestType{endless}.bits() == TestType{std::numeric_limits<float>::infinity()}.bits());
  REQUIRE(TestType{endless}.bits() != TestType::largest().bits());
}

TEMPLATE_TEST_CASE("fp8 keeps the sign of zero and of NaN", "", fp8_e4m3, fp8_e5m2) {
  REQUIRE(TestType{}.bits() == 0);
  REQUIRE(TestType{0.0F}.bits() == 0);
  REQUIRE(TestType{-0.0F}.bits() == 0x80);
  REQUIRE(TestType{-1e-30F}.bits() == 0x80);
  REQUIRE(TestType{-std::numeric_limits<float>::denorm_min()}.bits() == 0x80);
  REQUIRE(TestType{not_a_number}.bits() == 0x7f);
  REQUIRE(TestType{-not_a_number}.bits() == 0xff);
  REQUIRE(TestType{std::bit_cast<float>(0x7f800001U)}.bits() == 0x7f);  // a signalling NaN
}

TEST_CASE("fp8 works at compile time") {
  STATIC_REQUIRE(static_cast<float>(fp8_e4m3{1.5F}) == 1.5F);
  STATIC_REQUIRE(static_cast<float>(fp8_e5m2{-0x1p-16F}) == -0x1p-16F);
  STATIC_REQUIRE(fp8_e4m3{1000.0F}.bits() == 0x7e);
}
