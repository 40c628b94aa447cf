// SPDX-License-Identifier: Apache-2.0
/// fp16: every bit pattern, every rounding, subnormal numbers included.
#include "fssdp/element/fp16.hpp"

#include <cmath>

#include "catch.hpp"
#include "support/sixteen_bits_laws.hpp"

using fssdp::fp16;

TEST_CASE("fp16 keeps what it can hold and rounds what it cannot") {
  support::sixteen_bits_laws<fp16>::check();
}

TEST_CASE("fp16 has eleven significant bits and ends at 65504") {
  REQUIRE(fp16{1.0F}.bits() == 0x3c00);
  REQUIRE(fp16{-2.0F}.bits() == 0xc000);
  REQUIRE(static_cast<float>(fp16{2049.0F}) == 2048.0F);
  REQUIRE(static_cast<float>(fp16{2051.0F}) == 2052.0F);
  REQUIRE(fp16{65504.0F}.bits() == 0x7bff);
  REQUIRE(fp16{std::nextafter(65520.0F, 0.0F)}.bits() == 0x7bff);
  REQUIRE(fp16{65520.0F}.bits() == 0x7c00);  // halfway to the next power of two
  REQUIRE(fp16{-65520.0F}.bits() == 0xfc00);
  REQUIRE(fp16{std::nextafter(65520.0, 0.0)}.bits() == 0x7bff);
  REQUIRE(fp16{65520.0}.bits() == 0x7c00);
  REQUIRE(fp16{1e30F}.bits() == 0x7c00);
}

TEST_CASE("fp16 has subnormal numbers, in steps of 2^-24") {
  REQUIRE(fp16{0x1p-14F}.bits() == 0x0400);      // the smallest normal one
  REQUIRE(fp16{0x1.ff8p-15F}.bits() == 0x03ff);  // the largest subnormal one
  REQUIRE(fp16{0x1.ffcp-15F}.bits() == 0x0400);  // halfway, to even
  REQUIRE(fp16{0x1p-24F}.bits() == 0x0001);
  REQUIRE(fp16{0x1p-25F}.bits() == 0x0000);  // halfway, to even
  REQUIRE(fp16{std::nextafter(0x1p-25F, 1.0F)}.bits() == 0x0001);
  REQUIRE(fp16{0x1.8p-24F}.bits() == 0x0002);
  REQUIRE(fp16{-0x1p-24F}.bits() == 0x8001);
  REQUIRE(fp16{1e-40F}.bits() == 0);
}

TEST_CASE("a double just above a midpoint rounds up to fp16, not to even") {
  auto const above = 2049 + 0x1p-40;  // a float would make it 2049, a tie
  REQUIRE(static_cast<float>(fp16{static_cast<float>(above)}) == 2048);
  REQUIRE(static_cast<float>(fp16{above}) == 2050);
  REQUIRE(fp16{0x1p-25 + 0x1p-70}.bits() == 0x0001);
}

TEST_CASE("fp16 works at compile time") {
  STATIC_REQUIRE(static_cast<float>(fp16{1.5F}) == 1.5F);
  STATIC_REQUIRE(static_cast<double>(fp16{-0.375}) == -0.375);
  STATIC_REQUIRE(fp16{0x1p-24}.bits() == 1);
  STATIC_REQUIRE(fp16{2049 + 0x1p-40}.bits() == 0x6801);
  STATIC_REQUIRE(fp16{1e300}.bits() == 0x7c00);
  STATIC_REQUIRE(static_cast<float>(fp16::from_bits(0x8001)) == -0x1p-24F);
}
