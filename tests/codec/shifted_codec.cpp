// SPDX-License-Identifier: Apache-2.0
/// shifted_codec: points of its grid, which are right on average, and grids at the ends of floats.
#include "fssdp/codec/shifted_codec.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/core/error.hpp"
#include "support/codec_data.hpp"

using fssdp::shifted_codec;
using support::infinity;
using support::not_a_number;
using floats = std::vector<float>;

namespace {

constexpr auto largest_float = std::numeric_limits<float>::max();

/// The numbers of the design of quantized weights.
[[nodiscard]] floats eight_weights() {
  return {0.12F, -0.4F, 0.25F, 0.9F, -0.05F, 0.3F, 0.62F, -0.7F};
}
template <class Codec>
void stays_as_it_is_decoded(Codec const& coder, floats const& from) {
  auto const once = support::there_and_back(coder, from);
  CHECK(support::bits_of(support::there_and_back(coder, once)) == support::bits_of(once));
}

}  // namespace

TEST_CASE("shifted_codec takes 8 bytes per bucket, and its bits for each element") {
  CHECK(shifted_codec<8>::encoded_bytes(0) == 0);
  CHECK(shifted_codec<8>::encoded_bytes(256) == 264);
  CHECK(shifted_codec<8>::encoded_bytes(257) == 273);
  CHECK(shifted_codec<8, 1024>::encoded_bytes(1024) == 1032);
  CHECK(shifted_codec<4>::encoded_bytes(256) == 136);
  CHECK(shifted_codec<4>::encoded_bytes(3) == 10);
  CHECK_THROWS_AS(shifted_codec<8>::encoded_bytes(std::numeric_limits<std::size_t>::max()),
                  fssdp::argument_error);
}

TEST_CASE("elements become the nearest points: base + step round((x - base) / step)") {
  auto const from = eight_weights();
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    auto const coder = shifted_codec<4>{seed};
    auto const payload = support::encoded(coder, from);
    auto const base = double{support::scale_at(payload)};
    auto const step = double{support::scale_at(payload, sizeof(float))};
    CAPTURE(seed, base, step);
    CHECK(step >= 1.6 / 13);
    CHECK(step <= 1.6 / 13 * 1.125);
    CHECK(std::abs(base + 0.7) <= step / 2 + 1e-6);
    auto const to = support::decoded(coder, payload, from.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      auto const point = std::clamp(std::floor((double{from[i]} - base) / step + 0.5), 0.0, 13.0);
      CHECK(double{to[i]} == base + step * point);
    }
  }
}

TEST_CASE("over seeds the average of what is decoded is the element") {
  auto const from = eight_weights();
  constexpr auto seeds = 20'000;
  auto sums = std::vector<double>(from.size());
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    auto const to = support::there_and_back(shifted_codec<4>{seed}, from);
    for (std::size_t i = 0; i < from.size(); ++i) sums[i] += double{to[i]};
  }
  auto const step = 1.6 / 13 * 1.125;  // at most; uniform errors have step^2 / 12
  for (std::size_t i = 0; i < from.size(); ++i)
    CHECK(std::abs(sums[i] / seeds - double{from[i]}) <= 5 * step / std::sqrt(12.0 * seeds));
}

TEST_CASE("the shift depends on the bucket and the seed, on nothing else") {
  auto from = eight_weights();
  auto const coder = shifted_codec<8>{7};
  auto const payload = support::encoded(coder, from);
  CHECK(support::encoded(shifted_codec<8>{7}, from) == payload);
  CHECK(support::encoded(shifted_codec<8>{8}, from) != payload);
  from[1] += 0.01F;  // neither the least nor the greatest
  CHECK(support::scale_at(support::encoded(coder, from)) == support::scale_at(payload));
  from[3] += 0.00001F;
  CHECK(support::scale_at(support::encoded(coder, from)) != support::scale_at(payload));
}

TEST_CASE("constant buckets and buckets of two values are exact, zeros stay zeros") {
  auto const coder = shifted_codec<8>{1};
  for (auto const& from : {floats(100, 0.1F), floats{0.1F, 0, 0.1F}, floats{3, -1.5F, 3, 0, -1.5F},
                           floats(5), floats{1, 2, 3, 4, 5}, floats{-largest_float}})
    CHECK(support::there_and_back(coder, from) == from);
  CHECK(support::bits_of(support::there_and_back(coder, floats{-0.0F, 1})) ==
        support::bits_of(floats{0, 1}));
}

TEST_CASE("an element that is not finite becomes NaN, and no other") {
  auto with = eight_weights();
  auto const coder = shifted_codec<8>{2};
  auto const expected = support::there_and_back(coder, with);
  with.insert(with.end(), {infinity, -infinity, not_a_number, 0});
  auto const to = support::there_and_back(coder, with);
  CHECK(std::equal(expected.begin(), expected.end(), to.begin()));
  for (std::size_t i = 8; i < 11; ++i) CHECK(std::isnan(to[i]));
  CHECK(to[11] == 0);
}

TEST_CASE(
    "encoding decoded values again changes nothing, in narrow buckets and at the ends of floats, "
    "too") {
  auto draw = support::dice{8};
  for (int i = 0; i < 300; ++i) {
    auto const center = std::ldexp(draw.chance(50) ? 1.0F : -1.9999999F, draw.between(-140, 127));
    auto const width = std::ldexp(std::abs(center), -draw.between(1, 23));
    auto from = floats{};
    for (int n = 0; n < 300; ++n)
      from.push_back(
          std::clamp(center + width * static_cast<float>(draw.between(-1000, 1000)) / 999,
                     -largest_float, largest_float));
    CAPTURE(center, width);
    stays_as_it_is_decoded(shifted_codec<8>{static_cast<std::uint64_t>(i)}, from);
    stays_as_it_is_decoded(shifted_codec<4>{static_cast<std::uint64_t>(i)}, from);
    auto const to = support::there_and_back(shifted_codec<8>{}, from);
    CHECK(std::ranges::all_of(to, [](float x) { return x - x == 0; }));
  }
  stays_as_it_is_decoded(shifted_codec<8>{}, {-largest_float, largest_float, 1e38F, -3e38F, 1});
  CHECK(support::there_and_back(shifted_codec<8>{},
                                floats{-largest_float, largest_float, 5e37F})[1] > 3e38F);
}
