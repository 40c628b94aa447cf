// SPDX-License-Identifier: Apache-2.0
/// The laws of compressors, on units of all sizes.
#include "fssdp/hybrid/compressor.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/hybrid/any_compressor.hpp"
#include "fssdp/hybrid/codec_compressor.hpp"
#include "fssdp/hybrid/full_compressor.hpp"
#include "fssdp/hybrid/low_rank_compressor.hpp"
#include "fssdp/hybrid/quantized_compressor.hpp"
#include "fssdp/hybrid/selected_compressor.hpp"
#include "fssdp/hybrid/ternary_compressor.hpp"
#include "fssdp/hybrid/threshold_compressor.hpp"
#include "fssdp/hybrid/top_dct_compressor.hpp"
#include "support/dice.hpp"
#include "support/groups_by_hand.hpp"

using fssdp::codec_compressor;
using fssdp::full_compressor;
using fssdp::int8_codec;
using fssdp::low_rank_compressor;
using fssdp::quantized_compressor;
using fssdp::random_compressor;
using fssdp::strided_compressor;
using fssdp::ternary_compressor;
using fssdp::threshold_compressor;
using fssdp::top_dct_compressor;
using fssdp::unit_shape;
using support::groups_by_hand;
using floats = std::vector<float>;

namespace {

constexpr auto not_a_number = std::numeric_limits<float>::quiet_NaN();

[[nodiscard]] floats random_unit(support::dice& draw, unit_shape shape) {
  auto unit = floats(shape.elements());
  auto const kind = draw.between(0, 3);
  for (auto& x : unit) {
    x = static_cast<float>(draw.between(-1000, 1000)) / 256;
    if (kind == 0) x = 0;
    if (kind == 1 && draw.chance(90)) x = 0;
  }
  if (kind == 2 && !unit.empty()) unit[unit.size() / 2] = 1e6F;
  return unit;
}
[[nodiscard]] quantized_compressor shifted_quantized(std::size_t bits, std::size_t bucket) {
  return quantized_compressor{
      {.bits = bits, .bucket = bucket, .rounding = fssdp::quantized_rounding::shifted}};
}
[[nodiscard]] double squares(floats const& unit) {
  auto sum = 0.0;
  for (auto const x : unit) sum += double{x} * x;
  return sum;
}

/// Calls law(compressor) for every kind.
template <class Law>
void for_each_compressor(Law law) {
  law(full_compressor{});
  law(codec_compressor<int8_codec>{});
  law(codec_compressor<fssdp::bf16_codec>{});
  law(top_dct_compressor{});
  law(top_dct_compressor{{.rows = 8, .columns = 4, .kept = 3}});
  law(top_dct_compressor{{.rows = 32, .columns = 16, .kept = 20}});
  law(ternary_compressor{});
  law(ternary_compressor{.clip = 0});
  law(low_rank_compressor{});
  law(low_rank_compressor{.rank = 1, .least_saving = 1});
  law(quantized_compressor{});
  law(quantized_compressor{{.bits = 2, .bucket = 16}});
  law(shifted_quantized(8, 1024));
  law(shifted_quantized(4, 16));
  law(strided_compressor{3});
  law(random_compressor{0.3});
  law(threshold_compressor{.dropped = 0.8});
  law(threshold_compressor{.threshold = 2});
}
/// Calls law(compressor, shape, draw) for units of all sizes as well.
template <class Law>
void for_each_unit(Law law) {
  auto draw = support::dice{2026};
  for_each_compressor([&](auto const& compressor) {
    for (auto const shape :
         {unit_shape{1, 0}, unit_shape{0, 7}, unit_shape{1, 1}, unit_shape{1, 63},
          unit_shape{1, 64}, unit_shape{1, 65}, unit_shape{5, 3}, unit_shape{33, 17},
          unit_shape{64, 40}, unit_shape{1, 4097}}) {
      CAPTURE(compressor.description(), shape.rows, shape.columns);
      law(compressor, shape, draw);
    }
  });
}

/// Has everything that a compressor has, and nothing else.
struct archetype {
  archetype() = delete;
  explicit archetype(int) {}
  archetype(archetype const&) = default;
  archetype& operator=(archetype const&) = delete;
  ~archetype() = default;

  [[nodiscard]] fssdp::combination combines(int /*round*/) const {
    return fssdp::combination::gather;
  }
  [[nodiscard]] std::string description() const { return "archetype"; }
  [[nodiscard]] int rounds() const { return 1; }
  [[nodiscard]] std::size_t payload_bytes(unit_shape, int) const { return 0; }
  [[nodiscard]] std::size_t state_elements(unit_shape) const { return 0; }
  [[nodiscard]] std::size_t scratch_elements(unit_shape) const { return 0; }
  [[nodiscard]] bool needs_residual(unit_shape) const { return true; }
  void encode(fssdp::compression_unit const&, std::span<float const>,
              std::span<fssdp::combined_payload const>, std::span<std::byte>) const {}
  void own(fssdp::compression_unit const&, std::span<fssdp::combined_payload const>,
           std::span<float>) const {}
  void decode(fssdp::compression_unit const&, std::span<fssdp::combined_payload const>,
              std::span<float>) const {}
};
static_assert(fssdp::compressor<archetype>);
static_assert(std::is_constructible_v<fssdp::any_compressor, archetype>);

struct decodes_no_floats : archetype {
  using archetype::archetype;
  void decode(fssdp::compression_unit const&, std::span<fssdp::combined_payload const>,
              std::span<double>) const {}
};
struct encodes_in_one_round : archetype {
  using archetype::archetype;
  void encode(fssdp::compression_unit const&, std::span<float const>, std::span<std::byte>) const {}
};
struct combines_in_any_round : archetype {
  using archetype::archetype;
  [[nodiscard]] fssdp::combination combines() const { return fssdp::combination::sum; }
};
struct changes_when_it_encodes : archetype {
  using archetype::archetype;
  void encode(fssdp::compression_unit const&, std::span<float const>,
              std::span<fssdp::combined_payload const>, std::span<std::byte>) {}
};
static_assert(!fssdp::compressor<decodes_no_floats>);
static_assert(!fssdp::compressor<encodes_in_one_round>);
static_assert(!fssdp::compressor<combines_in_any_round>);
static_assert(!fssdp::compressor<changes_when_it_encodes>);
static_assert(!fssdp::compressor<int8_codec>);

}  // namespace

TEST_CASE("all groups decode equal bits, and a group alone what it has sent") {
  for_each_unit([](auto const& compressor, unit_shape shape, support::dice& draw) {
    for (int groups : {1, 2, 3}) {
      auto all = groups_by_hand{compressor, shape, groups};
      for (int step = 0; step < 3; ++step) {
        auto inputs = std::vector<floats>{};
        for (int g = 0; g < groups; ++g) inputs.push_back(random_unit(draw, shape));
        all.exchange(inputs);
        for (std::size_t g = 1; g < all.groups(); ++g) {
          REQUIRE(all.average(g) == all.average(0));
          REQUIRE(all.state(g) == all.state(0));
        }
        if (groups == 1) REQUIRE(all.average(0) == all.own(0));
      }
    }
  });
}

TEST_CASE("units of zeros become zeros") {
  for_each_unit([](auto const& compressor, unit_shape shape, support::dice&) {
    auto groups = groups_by_hand{compressor, shape, 2};
    auto const zeros = floats(shape.elements());
    groups.exchange({zeros, zeros});
    REQUIRE(groups.own(1) == zeros);
    REQUIRE(groups.average(0) == zeros);
  });
}

TEST_CASE("nothing is sent that is larger than the unit, and what needs no residual is exact") {
  for_each_unit([](auto const& compressor, unit_shape shape, support::dice& draw) {
    constexpr auto is_drawn = std::is_same_v<decltype(compressor), ternary_compressor const&> ||
                              std::is_same_v<decltype(compressor), quantized_compressor const&>;
    auto groups = groups_by_hand{compressor, shape, 1};
    auto const input = random_unit(draw, shape);
    groups.exchange({input});
    if (is_drawn) return;
    auto rest = input;
    for (std::size_t i = 0; i < rest.size(); ++i) rest[i] -= groups.own(0)[i];
    REQUIRE(squares(rest) <= squares(input) * (1 + 1e-5));
    if (!compressor.needs_residual(shape)) REQUIRE(groups.own(0) == input);
  });
}

TEST_CASE("values that are not finite stay visible, in all groups") {
  for_each_unit([](auto const& compressor, unit_shape shape, support::dice& draw) {
    if (shape.elements() == 0) return;
    for (auto const odd : {not_a_number, std::numeric_limits<float>::infinity()}) {
      auto groups = groups_by_hand{compressor, shape, 2};
      auto inputs = std::vector<floats>{random_unit(draw, shape), random_unit(draw, shape)};
      for (auto& x : inputs[0]) x = odd;  // all, as some compressors leave elements out
      groups.exchange(inputs);
      for (std::size_t g = 0; g < 2; ++g)
        REQUIRE(std::ranges::any_of(groups.average(g), [](float x) { return !std::isfinite(x); }));
    }
  });
}

TEST_CASE("payloads are as long as they say, and depend on shape and options alone") {
  auto const bytes = [](auto const& compressor, unit_shape shape) {
    auto sum = std::size_t{0};
    for (int round = 0; round < compressor.rounds(); ++round)
      sum += compressor.payload_bytes(shape, round);
    return sum;
  };
  auto const matrix = unit_shape{256, 512};  // 524,288 bytes
  CHECK(bytes(full_compressor{}, matrix) == 524'288);
  CHECK(bytes(codec_compressor<int8_codec>{}, matrix) == 133'120);
  CHECK(bytes(top_dct_compressor{}, matrix) == 40'960);  // 1 / 12.8
  CHECK(bytes(top_dct_compressor{{.rows = 64, .columns = 64, .kept = 32}}, matrix) == 6'144);
  CHECK(bytes(ternary_compressor{}, matrix) == 32'772);
  CHECK(bytes(quantized_compressor{}, matrix) == 132'096);
  CHECK(bytes(low_rank_compressor{.rank = 4}, matrix) == 12'288);
  CHECK(bytes(low_rank_compressor{.rank = 200}, matrix) == 524'288);
  CHECK(bytes(strided_compressor{16}, matrix) == 32'768);
  CHECK(bytes(random_compressor{}, matrix) == 32'768);
  CHECK(bytes(top_dct_compressor{}, {1, 65}) == 40);
}

TEST_CASE("an element of a block that is not finite takes its block, and no other") {
  auto groups =
      groups_by_hand{top_dct_compressor{{.rows = 1, .columns = 4, .kept = 2}}, {1, 12}, 2};
  auto odd = floats(12, 1.0F);
  odd[5] = not_a_number;
  groups.exchange({odd, floats(12, 1.0F)});
  for (std::size_t i = 0; i < 12; ++i) CHECK(std::isnan(groups.average(1)[i]) == (i / 4 == 1));
}

TEST_CASE("all coefficients of a block are the block") {
  auto draw = support::dice{5};
  for (auto const& options : {top_dct_compressor::options{.rows = 1, .columns = 16, .kept = 99},
                              top_dct_compressor::options{.rows = 8, .columns = 16, .kept = 128}}) {
    auto groups = groups_by_hand{top_dct_compressor{options}, {24, 21}, 1};
    auto const input = random_unit(draw, {24, 21});
    groups.exchange({input});
    auto const scale = std::sqrt(squares(input)) + 1e-3;
    for (std::size_t i = 0; i < input.size(); ++i)
      REQUIRE(std::abs(groups.own(0)[i] - input[i]) <= 1e-5 * scale);
  }
}

TEST_CASE("blocks with more than 256 elements have indices of 2 bytes") {
  auto groups =
      groups_by_hand{top_dct_compressor{{.rows = 1, .columns = 1000, .kept = 1}}, {1, 1000}, 1};
  auto input = floats(1000);
  for (std::size_t n = 0; n < 1000; ++n)  // coefficient 777 alone
    input[n] = static_cast<float>(
        std::cos(3.14159265358979 * (static_cast<double>(n) + 0.5) * 777 / 1000));
  groups.exchange({input});
  CHECK(std::to_integer<int>(groups.payload(0, 0)[0]) == 777 % 256);
  CHECK(std::to_integer<int>(groups.payload(0, 0)[1]) == 777 / 256);
  for (std::size_t n = 0; n < 1000; ++n) REQUIRE(std::abs(groups.own(0)[n] - input[n]) < 1e-4F);
}

TEST_CASE("TernGrad: the average over draws is the gradient, where nothing is clipped") {
  auto const input = floats{0.5F, -1, 0.25F, 0, 0.01F, -0.125F};
  auto groups = groups_by_hand{ternary_compressor{.clip = 0}, {1, 6}, 1};
  constexpr auto keys = 10'000;
  auto sums = std::vector<double>(6);
  for (std::uint64_t key = 0; key < keys; ++key) {
    groups.set_key(fssdp::random_key(key));
    groups.exchange({input});
    for (std::size_t i = 0; i < 6; ++i) sums[i] += groups.own(0)[i];
  }
  for (std::size_t i = 0; i < 6; ++i) {
    auto const g = std::abs(double{input[i]});
    auto const error = std::sqrt(g * (1 - g) / keys);  // s = 1
    CHECK(std::abs(sums[i] / keys - input[i]) <= 4 * error);
  }
}

TEST_CASE("QSDP: codes go up or down by chance, and are right on average") {
  auto const input = floats{0.12F, -0.4F, 0.25F, 0.9F, -0.05F, 0.3F, 0.62F, -0.7F};
  auto groups = groups_by_hand{quantized_compressor{{.bits = 4, .bucket = 8}}, {1, 8}, 1};
  constexpr auto step = 1.6 / 15;
  constexpr auto keys = 10'000;
  auto sums = std::vector<double>(8);
  for (std::uint64_t key = 0; key < keys; ++key) {
    groups.set_key(fssdp::random_key(key));
    groups.exchange({input});
    auto const draw = fssdp::counter_random{groups.own_key(0)};
    for (std::size_t i = 0; i < 8; ++i) {
      auto const value = double{groups.own(0)[i]};
      sums[i] += value;
      auto const place = (double{input[i]} + 0.7) / step + double{draw[i]};
      auto const is_clear = std::abs(place - std::round(place)) > 1e-4;  // whatever rounding does
      if (is_clear)
        REQUIRE(std::abs(value - (-0.7 + step * std::min(15.0, std::floor(place)))) < 1e-5);
      REQUIRE(std::abs(value - input[i]) <= step * 1.0001);
    }
  }
  for (std::size_t i = 0; i < 8; ++i) CHECK(std::abs(sums[i] / keys - input[i]) < 4 * step / 200);
}

TEST_CASE("QSDP: a grid that is shifted by chance is right on average, half a step wrong at most") {
  auto const input = floats{0.12F, -0.4F, 0.25F, 0.9F, -0.05F, 0.3F, 0.62F, -0.7F};
  auto groups = groups_by_hand{shifted_quantized(4, 8), {1, 8}, 1};
  constexpr auto step = 1.6 / 15;
  constexpr auto keys = 10'000;
  auto sums = std::vector<double>(8);
  for (std::uint64_t key = 0; key < keys; ++key) {
    groups.set_key(fssdp::random_key(key));
    groups.exchange({input});
    for (std::size_t i = 0; i < 8; ++i) {
      auto const value = double{groups.own(0)[i]};
      sums[i] += value;
      REQUIRE(std::abs(value - input[i]) <= step / 2 * 1.0001);
    }
  }
  auto const error = step / std::sqrt(12.0 * keys);
  for (std::size_t i = 0; i < 8; ++i) CHECK(std::abs(sums[i] / keys - input[i]) <= 4 * error);
}

TEST_CASE("QSDP: groups share the shift of a bucket, steps and buckets have others") {
  auto const shift_of = [](std::vector<std::byte> const& payload, std::size_t bucket) {
    auto const of_bucket = std::span{payload}.subspan(bucket * 12, 12);  // 8 codes of 4 bits
    return (fssdp::detail::float_at(of_bucket, 0) + 1) / fssdp::detail::float_at(of_bucket, 1);
  };
  auto groups = groups_by_hand{shifted_quantized(4, 8), {2, 8}, 2};
  auto inputs = std::vector<floats>(2, floats(16));
  for (std::size_t g = 0; g < 2; ++g)
    for (std::size_t i = 0; i < 16; ++i)  // from -1 on, to other ends in each group
      inputs[g][i] = static_cast<float>((i % 8) * (g + 1)) / 4 - 1;
  groups.exchange(inputs);
  auto const payloads = std::vector{groups.payload(0, 0), groups.payload(1, 0)};
  for (std::size_t bucket = 0; bucket < 2; ++bucket) {
    CHECK(std::abs(shift_of(payloads[0], bucket)) <= 0.5F);
    CHECK(std::abs(shift_of(payloads[0], bucket) - shift_of(payloads[1], bucket)) <= 1e-5F);
  }
  CHECK(std::abs(shift_of(payloads[0], 0) - shift_of(payloads[0], 1)) > 1e-3F);
  groups.exchange(inputs);  // once more with the same key: nothing else is drawn from
  CHECK(groups.payload(1, 0) == payloads[1]);
  groups.set_key(2);
  groups.exchange(inputs);
  CHECK(groups.payload(0, 0) != payloads[0]);
}

TEST_CASE(
    "QSDP: no shift goes past the ends of floats, and buckets of one value stay as they are") {
  constexpr auto largest = std::numeric_limits<float>::max();
  auto groups = groups_by_hand{shifted_quantized(8, 8), {1, 8}, 1};
  for (std::uint64_t key = 0; key < 20; ++key) {
    groups.set_key(key);
    for (auto const& input :
         {floats{0, largest, 1, 2, 3, 4, 5, 6}, floats{-largest, 0, -1, -2, -3, -4, -5, -6}}) {
      groups.exchange({input});
      for (std::size_t i = 0; i < 8; ++i)
        REQUIRE(std::abs(double{groups.own(0)[i]} - double{input[i]}) <= largest / 509.0);
    }
    groups.exchange({floats(8, 0.3F)});
    REQUIRE(groups.own(0) == floats(8, 0.3F));
  }
}

TEST_CASE("QSDP: steps that are as small as those between floats") {
  for (float const first : {1.0F, -1.0F, 16777215.0F})
    for (int const unit : {1, 32}) {
      auto input = floats(256, first);
      for (std::size_t i = 1; i < 256; ++i)
        input[i] = i % static_cast<std::size_t>(unit) == 0 ? std::nextafter(input[i - 1], 1e9F)
                                                           : input[i - 1];
      auto groups = groups_by_hand{shifted_quantized(8, 256), {1, 256}, 1};
      for (std::uint64_t key = 0; key < 50; ++key) {
        groups.set_key(key);
        groups.exchange({input});
        for (std::size_t i = 0; i < 256; ++i) {
          auto const next = double{std::nextafter(input[i], 1e9F)} - double{input[i]};
          REQUIRE(std::abs(double{groups.own(0)[i]} - double{input[i]}) <= 2 * next);
        }
      }
    }
}

TEST_CASE("striding: after as many exchanges as the stride each element has been sent once") {
  auto groups = groups_by_hand{strided_compressor{5}, {1, 13}, 1};
  auto sent = floats(13);
  for (int step = 0; step < 5; ++step) {
    groups.exchange({floats(13, 1.0F)});
    for (std::size_t i = 0; i < 13; ++i) sent[i] += groups.own(0)[i];
  }
  CHECK(sent == floats(13, 1.0F));
}

TEST_CASE("random selection: as many elements as asked for, others with another key") {
  auto groups = groups_by_hand{random_compressor{0.25}, {1, 100}, 2};
  groups.exchange({floats(100, 1.0F), floats(100, 3.0F)});
  auto const first = groups.average(0);
  CHECK(std::ranges::count(first, 2.0F) == 25);
  CHECK(std::ranges::count(first, 0.0F) == 75);
  groups.set_key(2);
  groups.exchange({floats(100, 1.0F), floats(100, 3.0F)});
  CHECK(groups.average(0) != first);
}

TEST_CASE("PowerSGD of full rank is exact, and an expert without tokens poisons nothing") {
  auto draw = support::dice{9};
  auto groups = groups_by_hand{low_rank_compressor{.rank = 4, .least_saving = 0}, {9, 4}, 2};
  auto const zeros = floats(36);
  for (int step = 0; step < 4; ++step) {
    auto const a = step == 1 ? zeros : random_unit(draw, {9, 4});
    auto const b = step == 1 ? zeros : random_unit(draw, {9, 4});
    groups.exchange({a, b});
    auto const scale = std::sqrt(squares(a) + squares(b)) + 1e-3;
    for (std::size_t i = 0; i < 36; ++i)
      REQUIRE(std::abs(groups.average(0)[i] - (a[i] + b[i]) / 2) <= 2e-5 * scale);
  }
}

TEST_CASE("PowerSGD of a higher rank than the gradient is exact, too") {
  auto groups = groups_by_hand{low_rank_compressor{.rank = 4, .least_saving = 0}, {24, 20}, 2};
  auto product = floats(480);  // of one column and one row
  for (std::size_t i = 0; i < 480; ++i)
    product[i] = static_cast<float>((i / 20 + 1) * (i % 20 + 3)) / 100;
  for (int step = 0; step < 3; ++step) {
    groups.exchange({product, product});
    for (std::size_t i = 0; i < 480; ++i)
      REQUIRE(std::abs(groups.average(0)[i] - product[i]) <= 1e-5F * 6);
  }
}

TEST_CASE("PowerSGD: subnormal gradients, as residuals of idle experts, stay finite") {
  for (float const magnitude : {1e-39F, 1e-42F, 1.5e-45F}) {
    auto groups = groups_by_hand{low_rank_compressor{.rank = 2, .least_saving = 0}, {9, 4}, 2};
    auto draw = support::dice{4};
    auto input = floats(36);
    for (auto& x : input) x = magnitude * static_cast<float>(draw.between(-2, 2));
    for (int step = 0; step < 4; ++step) {
      groups.exchange({input, floats(36)});
      for (auto const x : groups.average(1)) REQUIRE(std::abs(x) <= 1e-38F);
    }
  }
}

TEST_CASE("compressors refuse options that cannot be") {
  using options = top_dct_compressor::options;
  CHECK_THROWS_AS(top_dct_compressor(options{.columns = 0}), fssdp::argument_error);
  CHECK_THROWS_AS(top_dct_compressor(options{.kept = 0}), fssdp::argument_error);
  CHECK_THROWS_AS(top_dct_compressor(options{.rows = 300, .columns = 300}), fssdp::argument_error);
  using bits = quantized_compressor::options;
  CHECK_THROWS_AS(quantized_compressor(bits{.bits = 3}), fssdp::argument_error);
  CHECK_THROWS_AS(quantized_compressor(bits{.bucket = 12}), fssdp::argument_error);
  CHECK_THROWS_AS(strided_compressor(0), fssdp::argument_error);
  CHECK_THROWS_AS(random_compressor(0), fssdp::argument_error);
  CHECK_THROWS_AS(low_rank_compressor{.rank = 0}.payload_bytes({4, 4}, 0), fssdp::argument_error);
  CHECK_THROWS_AS(full_compressor{}.payload_bytes({1, std::size_t{1} << 63U}, 0),
                  fssdp::argument_error);
}
