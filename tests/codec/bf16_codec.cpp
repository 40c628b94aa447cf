// SPDX-License-Identifier: Apache-2.0
/// bf16_codec: every code, by hand and against bf16.
#include "fssdp/codec/bf16_codec.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "fssdp/core/error.hpp"
#include "support/codec_data.hpp"

using fssdp::bf16;
using fssdp::bf16_codec;
using support::infinity;
using support::not_a_number;

namespace {

[[nodiscard]] std::vector<int> bf16_codes(std::vector<float> const& from) {
  auto const payload = support::encoded(bf16_codec{}, from);
  auto all = std::vector<int>{};
  for (std::size_t i = 0; i < from.size(); ++i) {
    auto code = std::uint16_t{0};
    std::memcpy(&code, payload.data() + 2 * i, sizeof code);
    all.push_back(code);
  }
  return all;
}

}  // namespace

TEST_CASE("bf16_codec takes two bytes per element") {
  REQUIRE(bf16_codec::encoded_bytes(1) == 2);
  REQUIRE(bf16_codec::encoded_bytes(1000) == 2000);
  REQUIRE_THROWS_AS(bf16_codec::encoded_bytes(std::numeric_limits<std::size_t>::max() / 4 + 1),
                    fssdp::argument_error);
}

TEST_CASE("bf16_codec rounds to nearest, ties to even") {
  REQUIRE(bf16_codes({1.0F, -2.0F, 257.0F, 259.0F}) == std::vector{0x3f80, 0xc000, 0x4380, 0x4382});
  REQUIRE(bf16_codes({0x1p-126F, 0x1p-133F, 0x1p-134F, 0x1.8p-133F}) ==
          std::vector{0x0080, 0x0001, 0x0000, 0x0002});
  REQUIRE(bf16_codes({0x1.fep127F, 0x1.fefffep127F, 0x1.ffp127F, -0x1.ffp127F}) ==
          std::vector{0x7f7f, 0x7f7f, 0x7f80, 0xff80});
  REQUIRE(bf16_codes({0.0F, -0.0F, infinity, -infinity, not_a_number, -not_a_number}) ==
          std::vector{0x0000, 0x8000, 0x7f80, 0xff80, 0x7fc0, 0xffc0});
}

TEST_CASE("all bf16 codes survive decoding and encoding") {
  auto all = std::vector<bf16>{};
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits)
    all.push_back(bf16::from_bits(static_cast<std::uint16_t>(bits)));
  auto payload = std::vector<std::byte>(2 * all.size());
  std::memcpy(payload.data(), all.data(), payload.size());
  auto const floats = support::decoded(bf16_codec{}, payload, all.size());
  auto const again = bf16_codes(floats);
  auto wrong = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto const same = floats[i] == static_cast<float>(all[i]) || std::isnan(floats[i]);
    auto const code = all[i].bits();
    auto const expected = std::isnan(floats[i]) ? code | 0x40 : code;  // a NaN becomes a quiet one
    wrong += same && again[i] == expected ? 0 : 1;
  }
  REQUIRE(wrong == 0);
}

TEST_CASE("bf16_codec gives the bits of bf16, in groups of elements and after them") {
  auto draw = support::dice{21};
  for (std::size_t size = 0; size < 200; ++size) {
    auto const from = support::random_floats(draw, size);
    auto expected = std::vector<int>{};
    for (auto const value : from) expected.push_back(bf16{value}.bits());
    REQUIRE(bf16_codes(from) == expected);
  }
}

TEST_CASE("the bound of bf16_codec is 2^-8 of an element, and it is nearly met") {
  REQUIRE(bf16_codec::error_bound(1.0F, 1.0F) == 0x1p-8);
  REQUIRE(bf16_codec::error_bound(-3.0F, 5.0F) == 0x1.8p-7);
  REQUIRE(bf16_codec::error_bound(0.0F, 5.0F) == 0x1p-134);
  REQUIRE(bf16_codec::error_bound(0x1.fefffep127F, 0x1.fefffep127F) == 0x1.fefffep119);
  REQUIRE(bf16_codec::error_bound(0x1.ffp127F, 0x1.ffp127F) == infinity);
  auto const tie = std::vector{1 + 0x1p-8F, 0x1p-134F};
  auto const to = support::there_and_back(bf16_codec{}, tie);
  REQUIRE(static_cast<double>(tie[0] - to[0]) > 0.99 * bf16_codec::error_bound(tie[0], tie[0]));
  REQUIRE(static_cast<double>(tie[1] - to[1]) == bf16_codec::error_bound(tie[1], tie[1]));
}
