// SPDX-License-Identifier: Apache-2.0
/// bf16: every bit pattern, every rounding.
#include "fssdp/element/bf16.hpp"

#include <limits>

#include "catch.hpp"
#include "support/sixteen_bits_laws.hpp"

using fssdp::bf16;

TEST_CASE("bf16 keeps what it can hold and rounds what it cannot") {
  support::sixteen_bits_laws<bf16>::check();
}

TEST_CASE("bf16 has eight significant bits and the range of a float") {
  REQUIRE(static_cast<float>(bf16{256.0F}) == 256.0F);
  REQUIRE(static_cast<float>(bf16{257.0F}) == 256.0F);
  REQUIRE(static_cast<float>(bf16{259.0F}) == 260.0F);
  REQUIRE(static_cast<float>(bf16{-259.0F}) == -260.0F);
  REQUIRE(bf16::from_bits(0x7f7f).bits() == bf16{0x1.fep127F}.bits());  // the largest
  REQUIRE(bf16{0x1.fefffep127F}.bits() == 0x7f7f);
  REQUIRE(bf16{0x1.ffp127F}.bits() == 0x7f80);  // halfway to the next power of two
  REQUIRE(bf16{std::numeric_limits<float>::max()}.bits() == 0x7f80);
  REQUIRE(bf16{0x1p-133F}.bits() == 1);  // the smallest
  REQUIRE(bf16{0x1p-134F}.bits() == 0);
}

TEST_CASE("a double just above a midpoint rounds up, not to even") {
  auto const above = 257 + 0x1p-40;  // a float would make it 257, a tie
  REQUIRE(static_cast<float>(bf16{static_cast<float>(above)}) == 256);
  REQUIRE(static_cast<float>(bf16{above}) == 258);
}

TEST_CASE("bf16 works at compile time") {
  STATIC_REQUIRE(static_cast<float>(bf16{1.5F}) == 1.5F);
  STATIC_REQUIRE(static_cast<double>(bf16{-0.375}) == -0.375);
  STATIC_REQUIRE(bf16{257 + 0x1p-40}.bits() == 0x4381);
  STATIC_REQUIRE(bf16{1e300}.bits() == 0x7f80);
  STATIC_REQUIRE(bf16::from_bits(0x3f80).bits() == 0x3f80);
}
