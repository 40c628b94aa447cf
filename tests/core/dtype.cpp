// SPDX-License-Identifier: Apache-2.0
/// bf16: every bit pattern, every rounding.
#include "fssdp/core/dtype.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "catch.hpp"
#include "support/dice.hpp"

using fssdp::bf16;

namespace {

/// Rounds by looking at both neighbours: the nearer one, of equals the even one.
[[nodiscard]] bf16 rounded_by_distance(float value) {
  auto const below = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U);
  auto const above = static_cast<std::uint16_t>(below + 1U);  // further from zero
  auto const at = [](std::uint16_t bits) {                    // infinity: as if it went on
    auto const result = static_cast<double>(static_cast<float>(bf16::from_bits(bits)));
    return std::isinf(result) ? std::copysign(std::ldexp(1.0, 128), result) : result;
  };
  auto const down = std::abs(static_cast<double>(value) - at(below));
  auto const up = std::abs(at(above) - static_cast<double>(value));
  auto const even = (below & 1U) == 0 ? below : above;
  return bf16::from_bits(down < up ? below : up < down ? above : even);
}

}  // namespace

TEST_CASE("every bf16 survives the way through float") {
  auto wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    auto const value = static_cast<float>(bf16::from_bits(static_cast<std::uint16_t>(bits)));
    auto const is_nan = (bits & 0x7fffU) > 0x7f80U;
    auto const expected = is_nan ? bits | 0x40U : bits;  // a signalling NaN becomes a quiet one
    if (bf16{value}.bits() != expected || std::isnan(value) != is_nan) ++wrong;
  }
  REQUIRE(wrong == 0);
}

TEST_CASE("a float rounds to the nearest bf16, ties to even") {
  auto wrong = 0;
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    if ((high & 0x7f80U) == 0x7f80U) continue;  // infinities and NaNs
    for (auto const low : {0x0000U, 0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      auto const value = std::bit_cast<float>(high << 16U | low);
      if (bf16{value}.bits() != rounded_by_distance(value).bits()) ++wrong;
    }
  }
  REQUIRE(wrong == 0);

  REQUIRE(static_cast<float>(bf16{256.0F}) == 256.0F);
  REQUIRE(static_cast<float>(bf16{257.0F}) == 256.0F);
  REQUIRE(static_cast<float>(bf16{259.0F}) == 260.0F);
}

TEST_CASE("random floats round like their neighbours say") {
  auto const seed = std::uint64_t{7};
  CAPTURE(seed);
  auto draw = support::dice{seed};
  auto wrong = 0;
  for (int i = 0; i < 100000; ++i) {
    auto const high = static_cast<std::uint32_t>(draw.between(0, 0xffff));
    auto const value =
        std::bit_cast<float>(high << 16U | static_cast<std::uint32_t>(draw.between(0, 0xffff)));
    if (std::isfinite(value) && bf16{value}.bits() != rounded_by_distance(value).bits()) ++wrong;
  }
  REQUIRE(wrong == 0);
}

TEST_CASE("bf16 keeps what is no number, and overflows to infinity") {
  using limits = std::numeric_limits<float>;
  REQUIRE(std::isnan(static_cast<float>(bf16{limits::quiet_NaN()})));
  // a NaN whose payload lies in the lower half alone must not become infinity
  REQUIRE(std::isnan(static_cast<float>(bf16{std::bit_cast<float>(0x7f800001U)})));
  REQUIRE(std::isnan(static_cast<float>(bf16{std::bit_cast<float>(0xffffffffU)})));
  REQUIRE(bf16{limits::infinity()}.bits() == 0x7f80);
  REQUIRE(bf16{-limits::infinity()}.bits() == 0xff80);
  REQUIRE(bf16{limits::max()}.bits() == 0x7f80);
  REQUIRE(bf16{-0.0F}.bits() == 0x8000);
  REQUIRE(bf16{}.bits() == 0);
}

TEST_CASE("sums of bf16 and float are formed in float, of double in double") {
  STATIC_REQUIRE(std::is_same_v<fssdp::accumulator_t<bf16>, float>);
  STATIC_REQUIRE(std::is_same_v<fssdp::accumulator_t<float>, float>);
  STATIC_REQUIRE(std::is_same_v<fssdp::accumulator_t<double>, double>);
  STATIC_REQUIRE(fssdp::element<bf16>);
  STATIC_REQUIRE(!fssdp::element<int>);
  STATIC_REQUIRE(static_cast<float>(bf16{1.5F}) == 1.5F);  // usable at compile time
}
