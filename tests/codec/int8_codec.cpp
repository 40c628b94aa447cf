// SPDX-License-Identifier: Apache-2.0
/// int8_codec: by hand, every code, and what scales are made of.
#include "fssdp/codec/int8_codec.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "fssdp/core/error.hpp"
#include "support/codec_data.hpp"

using fssdp::int8_codec;
using support::infinity;
using support::not_a_number;

namespace {

constexpr auto most = std::numeric_limits<float>::max();

[[nodiscard]] std::vector<int> int8_codes(std::vector<float> const& from) {
  auto const payload = support::encoded(int8_codec{}, from);
  auto all = std::vector<int>{};
  for (std::size_t i = 0; i < from.size(); ++i)
    all.push_back(static_cast<std::int8_t>(support::code_at(payload, i)));
  return all;
}
[[nodiscard]] float scale(float largest) {
  return support::scale_at(support::encoded(int8_codec{}, std::vector{-largest}));
}

/// Magnitudes of every exponent, and some more.
[[nodiscard]] std::vector<float> magnitudes() {
  auto draw = support::dice{41};
  auto all =
      std::vector{most, std::nextafter(most, 0.0F), std::numeric_limits<float>::denorm_min()};
  for (int i = 0; i < 20'000; ++i)
    all.push_back(std::abs(support::random_float(draw, draw.between(0, 6))));
  for (int exponent = -149; exponent < 127; ++exponent)
    for (auto const mantissa : {1.0F, 127 * 0x1p-6F, 1.9999999F})
      all.push_back(std::ldexp(mantissa, exponent));
  return all;
}

}  // namespace

TEST_CASE("int8_codec takes a byte per element and a scale per block of 256") {
  REQUIRE(int8_codec::encoded_bytes(0) == 0);
  REQUIRE(int8_codec::encoded_bytes(256) == 260);
  REQUIRE(int8_codec::encoded_bytes(600) == 612);
  REQUIRE_THROWS_AS(int8_codec::encoded_bytes(std::numeric_limits<std::size_t>::max()),
                    fssdp::argument_error);
}

TEST_CASE("int8_codec rounds to the nearest step, ties to even") {
  REQUIRE(scale(127.0F) == 1.0F);
  REQUIRE(int8_codes({127.0F, -127.0F, 1.0F, -1.0F, 0.5F, 1.5F, 2.5F, -2.5F, 0.49F, 126.5F,
                      125.5F}) == std::vector{127, -127, 1, -1, 0, 2, 2, -2, 0, 126, 126});
  REQUIRE(int8_codes({0.0F, -0.0F, 1e-30F, -254.0F, 2.0F}) == std::vector{0, 0, 0, -127, 1});
  REQUIRE(int8_codes({not_a_number, 127.0F, -not_a_number, infinity, -infinity, 3.0F}) ==
          std::vector{-128, 127, -128, -128, -128, 3});
  REQUIRE(int8_codes({0.0F, -0.0F}) == std::vector{0, 0});
  REQUIRE(int8_codes({not_a_number, infinity}) == std::vector{-128, -128});
}

TEST_CASE("int8_codec decodes neither -0 nor infinity") {
  auto const to = support::there_and_back(
      int8_codec{}, std::vector{-0.0F, -1e-30F, infinity, -infinity, not_a_number, 100.0F});
  REQUIRE(support::bits_of(std::span{to}.first(2)) == std::vector<std::uint32_t>{0, 0});
  REQUIRE((std::isnan(to[2]) && std::isnan(to[3]) && std::isnan(to[4])));
  REQUIRE(std::abs(to[5] - 100.0F) < 0.001F);
}

TEST_CASE("the largest element becomes 127 steps, the scale is the largest by 127") {
  auto wrong = 0;
  for (auto const largest : magnitudes()) {
    auto const step = static_cast<double>(scale(largest));
    auto const exact = static_cast<double>(largest) / 127;
    auto const smallest = exact <= 0x1p-126;
    wrong += smallest && step != 0x1p-126 ? 1 : 0;
    if (smallest) continue;
    wrong += std::abs(step / exact - 1) <= 0x1p-16 + 0x1p-23 ? 0 : 1;
    wrong += int8_codes({largest, -largest}) == std::vector{127, -127} ? 0 : 1;
    // 17 bits, so that a step times a code is a float.
    auto const low = std::bit_cast<std::uint32_t>(scale(largest)) & 0x7fU;
    wrong += low != 0 || !std::isfinite(127 * scale(largest)) ? 1 : 0;
  }
  REQUIRE(wrong == 0);
}

TEST_CASE("all steps under many scales survive decoding and encoding") {
  auto wrong = 0;
  for (auto const largest : magnitudes()) {
    auto const step = scale(largest);
    auto payload = std::vector<std::byte>(260);
    std::memcpy(payload.data(), &step, sizeof step);
    for (std::size_t code = 0; code < 256; ++code)
      payload[sizeof step + code] = static_cast<std::byte>(code);
    auto const floats = support::decoded(int8_codec{}, payload, 256);
    for (int code = -127; code <= 127; ++code)
      wrong += static_cast<double>(floats[static_cast<std::size_t>(code & 0xff)]) !=
                       code * static_cast<double>(step)
                   ? 1
                   : 0;
    wrong += std::isnan(floats[128]) ? 0 : 1;
    wrong += support::encoded(int8_codec{}, floats) != payload ? 1 : 0;
  }
  REQUIRE(wrong == 0);
}

TEST_CASE("the bound of int8_codec is half a step, and it is nearly met") {
  REQUIRE(int8_codec::error_bound(5.0F, 127.0F) == 0.5 + 0x1p-16);
  REQUIRE(int8_codec::error_bound(0.0F, 254.0F) == 1.0 + 0x1p-15);
  REQUIRE(int8_codec::error_bound(0.0F, 0.0F) == (0.5 + 0x1p-16) * 0x1p-126);
  auto const to = support::there_and_back(int8_codec{}, std::vector{127.0F, 0.5F});
  REQUIRE(to[1] == 0);  // off by 0.5
  auto wrong = 0;
  for (auto const largest : magnitudes()) {
    if (largest < 0x1p-118F) continue;
    auto const bound = static_cast<double>(largest) / 254 * (1 + 0x1p-14);
    wrong += int8_codec::error_bound(largest, largest) <= bound ? 0 : 1;
  }
  REQUIRE(wrong == 0);
}
