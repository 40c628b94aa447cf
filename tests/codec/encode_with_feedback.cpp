// SPDX-License-Identifier: Apache-2.0
/// encode_with_feedback: what one step leaves out is added in the next ones.
#include "fssdp/codec/encode_with_feedback.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/codec/decode_elements.hpp"
#include "fssdp/codec/fp8_e4m3_codec.hpp"
#include "fssdp/codec/fp8_e5m2_codec.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "support/codec_data.hpp"
#include "support/counted_fp16.hpp"

using support::counted_fp16;
using support::infinity;

namespace {

/// One step; what the other end decodes.
template <class Codec, class T>
[[nodiscard]] std::vector<float> step(std::vector<T> const& from, std::vector<float>& residual) {
  auto const coder = Codec{};
  auto payload = std::vector<std::byte>(coder.encoded_bytes(from.size()));
  fssdp::encode_with_feedback(coder, std::span<T const>{from}, std::span{residual},
                              std::span{payload});
  return support::decoded(coder, payload, from.size());
}

}  // namespace

TEMPLATE_TEST_CASE("if no sum is rounded, error feedback loses nothing", "", fssdp::bf16_codec,
                   fssdp::fp8_e4m3_codec, fssdp::fp8_e5m2_codec, counted_fp16) {
  auto draw = support::dice{61};
  auto const size = std::size_t{3000};  // more than one chunk
  auto residual = std::vector<float>(size);
  auto given = std::vector<double>(size);
  auto received = std::vector<double>(size);
  auto inexact = 0;
  for (int k = 0; k < 50; ++k) {
    auto from = std::vector<float>{};
    for (std::size_t i = 0; i < size; ++i)  // 13 bits; codes are multiples of 2^-17 at least
      from.push_back(static_cast<float>(draw.between(-4096, 4096)) * 0x1p-12F);
    auto const to = step<TestType>(from, residual);
    for (std::size_t i = 0; i < size; ++i) {
      given[i] += static_cast<double>(from[i]);
      received[i] += static_cast<double>(to[i]);
      inexact += residual[i] != 0 ? 1 : 0;
    }
  }
  auto wrong = 0;
  for (std::size_t i = 0; i < size; ++i)
    wrong += given[i] != received[i] + static_cast<double>(residual[i]) ? 1 : 0;
  REQUIRE(wrong == 0);
  REQUIRE(inexact > 50 * static_cast<int>(size) / 8);  // there was something to lose
}

TEST_CASE("values below half a step arrive in a later step") {
  auto const from = std::vector{127.0F, 0.3F, -0.3F};
  auto residual = std::vector<float>(3);
  auto sum = std::vector<double>(3);
  REQUIRE(support::there_and_back(fssdp::int8_codec{}, from)[1] == 0);  // never, without feedback
  for (int k = 0; k < 100; ++k) {
    auto const to = step<fssdp::int8_codec>(from, residual);
    for (std::size_t i = 0; i < 3; ++i) sum[i] += static_cast<double>(to[i]);
  }
  REQUIRE(sum[1] == 30);
  REQUIRE(sum[2] == -30);
}

TEST_CASE("values that are not finite leave no residual") {
  auto const nan = std::numeric_limits<float>::quiet_NaN();
  auto residual = std::vector{0.0F, 0.0F, 0.25F, 0.0F, 0.25F};
  auto const to =
      step<fssdp::bf16_codec>(std::vector{infinity, -infinity, nan, 0x1.ffp127F, 1.0F}, residual);
  REQUIRE(to[0] == infinity);
  REQUIRE(to[1] == -infinity);
  REQUIRE(std::isnan(to[2]));
  REQUIRE(to[3] == infinity);  // what bf16 makes of it
  REQUIRE(to[4] == 1.25F);
  REQUIRE(residual == std::vector<float>(5));
  auto after = std::vector<float>(2, nan);  // of a step that has gone wrong by other means
  REQUIRE(std::isnan(step<fssdp::int8_codec>(std::vector{1.0F, 2.0F}, after)[0]));
  REQUIRE(after == std::vector<float>(2));
}

TEST_CASE("gradients of other types have residuals in float") {
  auto residual = std::vector<float>(2);
  auto const doubles = std::vector{1 + 0x1p-30, 0x1p-40};
  auto const to = step<fssdp::bf16_codec>(doubles, residual);
  REQUIRE(to == std::vector{1.0F, 0x1p-40F});
  REQUIRE(residual == std::vector{0x1p-30F, 0.0F});  // what no float of that size holds
  auto const halves = std::vector(2, fssdp::fp16{1.0F});
  REQUIRE(step<fssdp::fp8_e4m3_codec>(halves, residual) == std::vector{1.0F, 1.0F});
  REQUIRE(residual == std::vector{0.0F, 0.0F});  // 1 + 2^-30 is no float either
}
