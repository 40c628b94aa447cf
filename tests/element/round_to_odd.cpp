// SPDX-License-Identifier: Apache-2.0
/// round_to_odd: the odd one of the two floats around a double, unless it is a float.
#include "fssdp/element/round_to_odd.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "catch.hpp"
#include "support/dice.hpp"

using fssdp::detail::round_to_odd;

namespace {

/// Whether the result is the value, or the odd one of its neighbours.
[[nodiscard]] bool is_right(double value) {
  auto const result = round_to_odd(value);
  if (static_cast<double>(result) == value) return std::signbit(result) == std::signbit(value);
  auto const odd = (std::bit_cast<std::uint32_t>(result) & 1U) == 1U;
  auto const up = static_cast<double>(std::nextafter(result, HUGE_VALF));
  auto const down = static_cast<double>(std::nextafter(result, -HUGE_VALF));
  return odd && down < value && value < up;
}

}  // namespace

TEST_CASE("values that a float can hold stay, all others round to the odd neighbour") {
  auto const seed = std::uint64_t{3};
  CAPTURE(seed);
  auto draw = support::dice{seed};
  auto wrong = 0;
  for (int i = 0; i < 100'000; ++i) {
    auto const bits = static_cast<std::uint32_t>(draw.between(0, 0xffff)) << 15U |
                      static_cast<std::uint32_t>(draw.between(0, 0x7fff));
    auto const value = std::bit_cast<float>(bits);
    if (!std::isfinite(value)) continue;
    auto const exact = static_cast<double>(value);
    auto const next = static_cast<double>(std::nextafter(value, HUGE_VALF));
    for (auto const part : {0.0, 1e-8, 0.25, 0.5, 0.75, 1 - 1e-8})
      for (auto const sign : {1.0, -1.0}) {
        auto const between = std::isinf(next) ? exact : exact + part * (next - exact);
        wrong += is_right(sign * between) ? 0 : 1;
      }
  }
  REQUIRE(wrong == 0);
}

TEST_CASE("round_to_odd at the ends of a float's range") {
  using limits = std::numeric_limits<float>;
  REQUIRE(round_to_odd(0x1.ffffffp127) == limits::max());  // is odd
  REQUIRE(round_to_odd(-0x1.ffffffp127) == limits::lowest());
  REQUIRE(round_to_odd(0x1p128) == limits::max());
  REQUIRE(round_to_odd(-1e300) == limits::lowest());
  REQUIRE(round_to_odd(std::numeric_limits<double>::max()) == limits::max());
  REQUIRE(round_to_odd(1e-300) == limits::denorm_min());
  REQUIRE(round_to_odd(-1e-300) == -limits::denorm_min());
  REQUIRE(round_to_odd(std::numeric_limits<double>::infinity()) == limits::infinity());
  REQUIRE(round_to_odd(-std::numeric_limits<double>::infinity()) == -limits::infinity());
  REQUIRE(std::isnan(round_to_odd(std::numeric_limits<double>::quiet_NaN())));
  REQUIRE(std::signbit(round_to_odd(-0.0)));
}
