// SPDX-License-Identifier: Apache-2.0
/// What both fp8 codecs promise: the smallest scale that prevents overflow, and the nearest fp8 with
/// that scale.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/fp8_e4m3_codec.hpp"
#include "fssdp/codec/fp8_e5m2_codec.hpp"
#include "fssdp/core/error.hpp"
#include "support/codec_data.hpp"
#include "support/nearest_fp8.hpp"

using fssdp::fp8_e4m3_codec;
using fssdp::fp8_e5m2_codec;
using support::infinity;

namespace {

/// What is known of a codec's format.
template <class Codec>
struct of;
template <>
struct of<fp8_e4m3_codec> {
  using type = fssdp::fp8_e4m3;
  static constexpr double end = 448;
  static constexpr int last_scale = 119;  // as a power of two
};
template <>
struct of<fp8_e5m2_codec> {
  using type = fssdp::fp8_e5m2;
  static constexpr double end = 57344;
  static constexpr int last_scale = 112;
};

/// The smallest power of two with which nothing is beyond the end, found by trying.
template <class Codec>
[[nodiscard]] double smallest_scale(float largest) {
  auto scale = -126;
  while (scale<of<Codec>::last_scale&& static_cast<double>(largest)> of<Codec>::end *
         std::ldexp(1.0, scale))
    ++scale;
  return std::ldexp(1.0, scale);
}

/// A block of all codes under a scale.
[[nodiscard]] std::vector<std::byte> all_codes(float scale) {
  auto payload = std::vector<std::byte>(sizeof scale + 256);
  std::memcpy(payload.data(), &scale, sizeof scale);
  for (std::size_t code = 0; code < 256; ++code)
    payload[sizeof scale + code] = static_cast<std::byte>(code);
  return payload;
}

}  // namespace

TEMPLATE_TEST_CASE("an fp8 payload has a scale in front of every block of 256", "", fp8_e4m3_codec,
                   fp8_e5m2_codec) {
  REQUIRE(TestType::encoded_bytes(0) == 0);
  REQUIRE(TestType::encoded_bytes(1) == 5);
  REQUIRE(TestType::encoded_bytes(256) == 260);
  REQUIRE(TestType::encoded_bytes(257) == 265);
  REQUIRE(TestType::encoded_bytes(1000) == 1016);
  REQUIRE_THROWS_AS(TestType::encoded_bytes(std::numeric_limits<std::size_t>::max()),
                    fssdp::argument_error);

  auto from = std::vector<float>(600, 0.0F);
  from[255] = -7.0F;  // of the first block
  from[256] = 3.0F;   // of the second
  from[599] = 2.0F;   // of the third
  auto const payload = support::encoded(TestType{}, from);
  auto const scale = [&](std::size_t offset) {
    return static_cast<double>(support::scale_at(payload, offset));
  };
  REQUIRE(scale(0) == smallest_scale<TestType>(7.0F));
  REQUIRE(scale(260) == smallest_scale<TestType>(3.0F));
  REQUIRE(scale(520) == smallest_scale<TestType>(2.0F));
  REQUIRE(support::there_and_back(TestType{}, from) == from);
}

TEMPLATE_TEST_CASE("the scale of fp8 is the smallest that prevents overflow", "", fp8_e4m3_codec,
                   fp8_e5m2_codec) {
  auto draw = support::dice{31};
  auto wrong = 0;
  auto const check = [&](float largest) {
    auto const scale = support::scale_at(support::encoded(TestType{}, std::vector{-largest}));
    wrong += static_cast<double>(scale) != smallest_scale<TestType>(largest) ? 1 : 0;
  };
  auto const most = std::numeric_limits<float>::max();
  for (int exponent = -149; exponent <= 127; ++exponent)
    for (auto const mantissa : {1.0F, 1.75F, 1.5F}) {
      auto const largest = std::ldexp(mantissa, exponent);
      for (auto const near :
           {largest, std::nextafter(largest, most), std::nextafter(largest, 0.0F)})
        check(near);
    }
  for (int i = 0; i < 1000; ++i) check(std::abs(support::random_float(draw, draw.between(0, 6))));
  REQUIRE(wrong == 0);
}

TEMPLATE_TEST_CASE("under the scale every element is the nearest fp8", "", fp8_e4m3_codec,
                   fp8_e5m2_codec) {
  using fp8 = typename of<TestType>::type;
  auto draw = support::dice{32};
  auto wrong = 0;
  for (int i = 0; i < 100; ++i) {
    auto const from = support::random_floats(draw, 256);
    auto const payload = support::encoded(TestType{}, from);
    auto const scale = static_cast<double>(support::scale_at(payload));
    for (std::size_t k = 0; k < from.size(); ++k)
      wrong += support::code_at(payload, k) ==
                       support::nearest_fp8<fp8>(static_cast<double>(from[k]) / scale)
                   ? 0
                   : 1;
  }
  REQUIRE(wrong == 0);
}

TEMPLATE_TEST_CASE("all fp8 codes under all scales survive decoding and encoding", "",
                   fp8_e4m3_codec, fp8_e5m2_codec) {
  using fp8 = typename of<TestType>::type;
  using format = support::fp8_format_of<fp8>;
  auto wrong = 0;
  for (int exponent = -126; exponent <= of<TestType>::last_scale; ++exponent) {
    auto payload = all_codes(std::ldexp(1.0F, exponent));
    auto const floats = support::decoded(TestType{}, payload, 256);
    for (int code = 0; code <= format::largest; ++code) {
      auto const expected = support::decoded_fp8<fp8>(code) * std::ldexp(1.0, exponent);
      auto const at = static_cast<std::size_t>(code);
      wrong += static_cast<double>(floats[at]) != expected ? 1 : 0;
      wrong += static_cast<double>(floats[at + 0x80]) != -expected ? 1 : 0;
    }
    for (std::size_t code = 0; code < 256; ++code)  // there is one NaN of each sign
      if (std::isnan(floats[code])) payload[sizeof(float) + code] |= std::byte{0x7f};
    wrong += support::encoded(TestType{}, floats) != payload ? 1 : 0;
  }
  REQUIRE(wrong == 0);
}

TEMPLATE_TEST_CASE("any bytes at all can be decoded as fp8", "", fp8_e4m3_codec, fp8_e5m2_codec) {
  for (auto const scale : {0.0F, std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN(), -1e-45F}) {
    auto const floats = support::decoded(TestType{}, all_codes(scale), 256);
    REQUIRE(floats.size() == 256);
  }
}

TEST_CASE("e4m3 under its scale: by hand") {
  auto const nan = std::numeric_limits<float>::quiet_NaN();
  // 896 needs the scale 2.
  auto const from = std::vector{896.0F,    34.0F, 38.0F, 0x1p-9F,  0x1.8p-8F, -0.0F,
                                -0x1p-10F, nan,   -nan,  infinity, -infinity};
  auto const payload = support::encoded(fp8_e4m3_codec{}, from);
  REQUIRE(support::scale_at(payload) == 2.0F);
  auto const codes = std::vector{0x7e, 0x58, 0x5a, 0x00, 0x02, 0x80, 0x80, 0x7f, 0xff, 0x7f, 0xff};
  for (std::size_t i = 0; i < codes.size(); ++i) {
    CAPTURE(i);
    REQUIRE(support::code_at(payload, i) == codes[i]);
  }
}

TEST_CASE("e5m2 under its scale: by hand") {
  auto const nan = std::numeric_limits<float>::quiet_NaN();
  // 1.75 needs the scale 2^-15.
  auto const from = std::vector{-1.75F, 9 * 0x1p-15F, 11 * 0x1p-15F, 0x1p-32F, 0x1.8p-31F,
                                -0.0F,  nan,          -nan,          infinity, -infinity};
  auto const payload = support::encoded(fp8_e5m2_codec{}, from);
  REQUIRE(support::scale_at(payload) == 0x1p-15F);
  auto const codes = std::vector{0xfb, 0x48, 0x4a, 0x00, 0x02, 0x80, 0x7f, 0xff, 0x7c, 0xfc};
  for (std::size_t i = 0; i < codes.size(); ++i) {
    CAPTURE(i);
    REQUIRE(support::code_at(payload, i) == codes[i]);
  }
}

TEMPLATE_TEST_CASE("fp8 saturates where the largest float would need too large a scale", "",
                   fp8_e4m3_codec, fp8_e5m2_codec) {
  auto const most = std::numeric_limits<float>::max();
  auto const from = std::vector{most, -most, 0x1.cp127F, 0x1.8p126F};
  REQUIRE(support::there_and_back(TestType{}, from) ==
          std::vector{0x1.cp127F, -0x1.cp127F, 0x1.cp127F, 0x1.8p126F});
  REQUIRE(TestType::error_bound(most, most) >= static_cast<double>(most) - 0x1.cp127);
}

TEST_CASE("the bounds of fp8 are nearly met") {
  auto const met = [](auto coder, float element, float largest) {
    auto const to = support::there_and_back(coder, std::vector{element, largest});
    auto const error = std::abs(static_cast<double>(to[0]) - static_cast<double>(element));
    return error / coder.error_bound(element, largest);
  };
  REQUIRE(fp8_e4m3_codec::error_bound(1.0F, 448.0F) == 0x1p-4);
  REQUIRE(fp8_e4m3_codec::error_bound(-100.0F, 448.0F) == 6.25);
  REQUIRE(fp8_e4m3_codec::error_bound(0.0F, 448.0F) == 0x1p-10);
  REQUIRE(fp8_e4m3_codec::error_bound(0.0F, 0.0F) == 0x1p-136);
  auto const most = std::numeric_limits<float>::max();
  REQUIRE(met(fp8_e4m3_codec{}, most, most) == 1);
  REQUIRE(met(fp8_e4m3_codec{}, 17.0F, 448.0F) > 0.9);
  REQUIRE(met(fp8_e4m3_codec{}, 0x1.8p-9F, 448.0F) == 1);
  REQUIRE(fp8_e5m2_codec::error_bound(1.0F, 57344.0F) == 0x1p-3);
  REQUIRE(fp8_e5m2_codec::error_bound(0.0F, 1.75F) == 0x1p-32);
  REQUIRE(met(fp8_e5m2_codec{}, 9.0F, 57344.0F) > 0.85);
  REQUIRE(met(fp8_e5m2_codec{}, 0x1.8p-31F, 1.75F) == 1);
}
