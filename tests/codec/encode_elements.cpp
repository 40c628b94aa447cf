// SPDX-License-Identifier: Apache-2.0
/// encode_elements and decode_elements: other types on their way through floats.
#include "fssdp/codec/encode_elements.hpp"

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/codec/decode_elements.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "support/codec_data.hpp"
#include "support/counted_fp16.hpp"

using fssdp::bf16;
using fssdp::fp16;

TEST_CASE("bf16 elements pass through bf16_codec unchanged") {
  auto draw = support::dice{51};
  auto from = std::vector<bf16>{};
  for (auto const value : support::random_floats(draw, 3000)) from.emplace_back(value);
  auto payload = std::vector<std::byte>(fssdp::bf16_codec::encoded_bytes(from.size()));
  fssdp::encode_elements(fssdp::bf16_codec{}, std::span<bf16 const>{from}, std::span{payload});
  auto to = std::vector<bf16>(from.size());
  fssdp::decode_elements(fssdp::bf16_codec{}, std::span<std::byte const>{payload}, std::span{to});
  auto wrong = 0;
  for (std::size_t i = 0; i < from.size(); ++i) wrong += to[i].bits() != from[i].bits() ? 1 : 0;
  REQUIRE(wrong == 0);
}

TEST_CASE("a double is rounded to a float first, and may be too large for one") {
  auto const coder = fssdp::bf16_codec{};
  auto const from = std::vector{1 + 0x1p-8 + 0x1p-40, -1e300, 1e-300, 0.5};
  auto payload = std::vector<std::byte>(fssdp::bf16_codec::encoded_bytes(from.size()));
  fssdp::encode_elements(coder, std::span<double const>{from}, std::span{payload});
  auto to = std::vector<double>(from.size());
  fssdp::decode_elements(coder, std::span<std::byte const>{payload}, std::span{to});
  REQUIRE(to == std::vector{1.0, -std::numeric_limits<double>::infinity(), 0.0, 0.5});
}

TEST_CASE("what is decoded to 16 bits is rounded once more") {
  auto const from = std::vector{127 * 1.001F, 1.001F};
  auto const coder = fssdp::int8_codec{};
  auto payload = support::encoded(coder, from);
  auto const floats = support::decoded(coder, payload, from.size());
  auto to = std::vector<fp16>(from.size());
  fssdp::decode_elements(coder, std::span<std::byte const>{payload}, std::span{to});
  REQUIRE(to[1].bits() == fp16{floats[1]}.bits());
  REQUIRE(static_cast<float>(to[1]) != floats[1]);
}

TEST_CASE("blocks that are converted on the stack are whole") {
  using fssdp::detail::stretch_elements;
  STATIC_REQUIRE(stretch_elements<fssdp::bf16_codec> == 1024);
  STATIC_REQUIRE(stretch_elements<fssdp::int8_codec> == 1024);
  STATIC_REQUIRE(stretch_elements<support::counted_fp16> == 1000);
}

TEST_CASE("an empty range has an empty payload") {
  auto payload = std::vector<std::byte>(1, std::byte{7});
  auto to = std::vector<fp16>(1, fp16{7.0F});
  auto const none = std::span{payload}.first(0);
  fssdp::encode_elements(fssdp::int8_codec{}, std::span<fp16 const>{}, none);
  fssdp::decode_elements(fssdp::int8_codec{}, std::span<std::byte const>{none},
                         std::span{to}.first(0));
  REQUIRE(payload[0] == std::byte{7});
  REQUIRE(static_cast<float>(to[0]) == 7.0F);
}
