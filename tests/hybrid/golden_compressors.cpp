// SPDX-License-Identifier: Apache-2.0
/// Numbers that were worked out by the published code, or by hand.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/hybrid/counter_random.hpp"
#include "fssdp/hybrid/low_rank_compressor.hpp"
#include "fssdp/hybrid/quantized_compressor.hpp"
#include "fssdp/hybrid/ternary_compressor.hpp"
#include "fssdp/hybrid/threshold_compressor.hpp"
#include "fssdp/hybrid/top_dct_compressor.hpp"
#include "support/groups_by_hand.hpp"

using floats = std::vector<float>;
using support::groups_by_hand;

namespace {

void is_close(floats const& found, floats const& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i, found[i], expected[i]);
    CHECK(std::abs(found[i] - expected[i]) <= 2e-6F * std::max(1.0F, std::abs(expected[i])));
  }
}

/// What is sent of a unit by a compressor that keeps all: its coefficients.
[[nodiscard]] floats coefficients_of(fssdp::unit_shape shape, floats const& input,
                                     fssdp::top_dct_compressor::options const& options) {
  auto groups = groups_by_hand{fssdp::top_dct_compressor{options}, shape, 1};
  groups.exchange({input});
  auto result = floats(options.rows * options.columns);
  auto const payload = std::span{groups.payload(0, 0)};
  for (std::size_t n = 0; n < result.size(); ++n)
    result[std::to_integer<std::size_t>(payload[n])] =
        fssdp::detail::float_at(payload.subspan(result.size()), n);
  return result;
}

}  // namespace

TEST_CASE("Philox with 10 rounds draws what its authors print") {
  CHECK(fssdp::detail::philox({0, 0, 0, 0}, 0) ==
        std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  auto const draw = fssdp::counter_random{0};
  CHECK(draw[0] == static_cast<float>(0x6627e8) / 0x1p24F);
  CHECK(draw[3] == static_cast<float>(0x9b00db) / 0x1p24F);
}

TEST_CASE("the cosine transform of a run, and of a matrix") {
  is_close(coefficients_of({1, 4}, {1, 2, 3, 4}, {.rows = 1, .columns = 4, .kept = 4}),
           {5, -2.230442F, 0, -0.158513F});
  is_close(coefficients_of({2, 2}, {1, 2, 3, 4}, {.rows = 2, .columns = 2, .kept = 4}),
           {5, -1, -2, 0});
}

TEST_CASE("DeMo: two steps of two groups") {
  auto const compressor = fssdp::top_dct_compressor{{.rows = 1, .columns = 4, .kept = 2}};
  auto groups = groups_by_hand{compressor, {1, 8}, 2};
  auto const gradients =
      std::vector<floats>{{1, 2, 3, 4, -1, 0.5F, 0, 2}, {0.5F, -1, 2, 1, 3, -2, 1, 0.25F}};
  auto momenta = std::vector<floats>(2, floats(8));
  auto parameters = floats(8);
  auto const step = [&] {
    for (std::size_t g = 0; g < 2; ++g)
      for (std::size_t i = 0; i < 8; ++i)
        momenta[g][i] = 0.999F * momenta[g][i] + 0.1F * gradients[g][i];
    groups.exchange(momenta);
    for (std::size_t g = 0; g < 2; ++g)
      for (std::size_t i = 0; i < 8; ++i) momenta[g][i] -= groups.own(g)[i];
    for (std::size_t i = 0; i < 8; ++i) {
      auto const u = groups.average(0)[i];
      parameters[i] -= 0.1F * (u > 0 ? 1.0F : u < 0 ? -1.0F : 0.0F);
    }
  };
  step();
  is_close(momenta[0],
           {-0.004289F, 0.010355F, -0.010355F, 0.004289F, 0.05F, 0.025F, 0.025F, 0.05F});
  is_close(momenta[1], {-0.061872F, -0.043306F, 0.018306F, 0.086872F, 0.120581F, 0.082897F,
                        0.029603F, -0.008081F});
  is_close(groups.average(0),
           {0.059911F, -0.0233F, 0.3358F, 0.252589F, 0.008238F, -0.206759F, -0.005741F, 0.204262F});
  CHECK(groups.average(1) == groups.average(0));
  is_close(parameters, {-0.1F, 0.1F, -0.1F, -0.1F, -0.1F, 0.1F, 0.1F, -0.1F});
  step();
  is_close(parameters, {-0.2F, 0, -0.2F, -0.2F, -0.2F, 0.2F, 0, -0.2F});
}

TEST_CASE("DeMo: the last block is filled up with zeros") {
  auto groups =
      groups_by_hand{fssdp::top_dct_compressor{{.rows = 1, .columns = 4, .kept = 2}}, {1, 6}, 1};
  groups.exchange({{0, 0, 0, 0, -1, 0.5F}});
  auto const own = groups.own(0);
  is_close({-1 - own[4], 0.5F - own[5]}, {-0.463388F, -0.265165F});
}

TEST_CASE("TernGrad: the scale that is clipped") {
  auto input = floats{};
  for (int i = 0; i < 7; ++i) input.insert(input.end(), {0.1F, -0.1F});
  input.insert(input.end(), {0.1F, 4});
  auto groups = groups_by_hand{fssdp::ternary_compressor{}, {1, 16}, 1};
  groups.exchange({input});
  is_close({fssdp::detail::float_at(groups.payload(0, 0), 0)}, {2.428620F});
}

TEST_CASE("TernGrad: two bits for each element, by the larger scale of two groups") {
  auto const g0 = floats{0.3F, -1.2F, 0.5F, 0, -0.1F, 0.8F, 2, -0.4F};
  auto const g1 = floats{0.25F, 0.5F, -1.5F, 0.75F, 0, -0.5F, 1, 0.1F};
  auto groups = groups_by_hand{fssdp::ternary_compressor{.clip = 0}, {1, 8}, 2};
  groups.exchange({g0, g1});
  for (std::size_t g = 0; g < 2; ++g) {
    auto const& input = g == 0 ? g0 : g1;
    auto const draw = fssdp::counter_random{groups.own_key(g)};
    for (std::size_t i = 0; i < 8; ++i) {
      auto const expected = draw[i] * 2 < std::abs(input[i]) ? std::copysign(2.0F, input[i]) : 0.0F;
      CHECK(groups.own(g)[i] == expected);
    }
  }
  for (std::size_t i = 0; i < 8; ++i)
    CHECK(groups.average(1)[i] == (groups.own(0)[i] + groups.own(1)[i]) / 2);
}

TEST_CASE("QSDP: a grid that is shifted by -0.45 steps") {
  auto const compressor = fssdp::quantized_compressor{
      {.bits = 4, .bucket = 8, .rounding = fssdp::quantized_rounding::shifted}};
  auto key = std::uint64_t{0};
  while (std::abs(fssdp::counter_random{key}[0] - 0.05F) > 1e-6F) ++key;  // r is that, less 1/2
  auto groups = groups_by_hand{compressor, {1, 8}, 2};
  groups.set_key(key);
  auto const weights = floats{0.12F, -0.4F, 0.25F, 0.9F, -0.05F, 0.3F, 0.62F, -0.7F};
  groups.exchange({weights, weights});
  auto const codes =
      std::vector{std::byte{0x38}, std::byte{0xf9}, std::byte{0xa7}, std::byte{0x0d}};
  for (std::size_t g = 0; g < 2; ++g) {
    auto const payload = std::span{groups.payload(g, 0)};
    is_close({fssdp::detail::float_at(payload, 0), fssdp::detail::float_at(payload, 1)},
             {-0.748F, 0.106667F});
    CHECK(std::vector(payload.begin() + 8, payload.end()) == codes);
    is_close(groups.own(g),
             {0.105333F, -0.428F, 0.212F, 0.852F, -0.001333F, 0.318667F, 0.638667F, -0.748F});
    CHECK(groups.average(g) == groups.own(0));  // the same, twice
  }
}

TEST_CASE("PowerSGD: two steps of rank 1 of two groups") {
  auto const compressor = fssdp::low_rank_compressor{.rank = 1, .least_saving = 0};
  auto groups = groups_by_hand{compressor, {3, 2}, 2};
  groups.set_state({0.6F, 0.8F});
  auto const gradients = std::vector<floats>{{1, 2, 3, 4, 5, 6}, {2, 0, 1, 1, 0, -2}};
  groups.exchange(gradients);
  is_close(groups.average(0), {1.248461F, 1.188654F, 2.350044F, 2.237467F, 2.276605F, 2.167546F});
  is_close(groups.state(0), {3.502041F, 3.334279F});
  auto residuals = gradients;
  for (std::size_t g = 0; g < 2; ++g)
    for (std::size_t i = 0; i < 6; ++i) residuals[g][i] -= groups.own(g)[i];
  is_close(residuals[0], {-1.003518F, -0.601583F, -0.771328F, -0.897098F, 1.346526F, 1.255937F});
  is_close(residuals[1], {1.506596F, 0.224274F, 0.07124F, 1.422164F, -0.899736F, -1.591029F});
  auto second = gradients;
  for (std::size_t g = 0; g < 2; ++g)
    for (std::size_t i = 0; i < 6; ++i) second[g][i] += residuals[g][i];
  groups.exchange(second);
  is_close(groups.state(1), {3.53936F, 3.301143F});
}

TEST_CASE("thresholds: marks of both groups, then sums at all of them") {
  auto groups = groups_by_hand{fssdp::threshold_compressor{.threshold = 0.5F}, {1, 8}, 2};
  auto const inputs = std::vector<floats>{{0.6F, -0.1F, 0.05F, 1.2F, -0.7F, 0.2F, 0, 0.4F},
                                          {0.3F, -0.9F, 0.1F, 0.8F, 0.45F, -0.2F, 0, -1.1F}};
  groups.exchange(inputs);
  CHECK(groups.payload(0, 0) == std::vector{std::byte{0x19}});
  CHECK(groups.payload(1, 0) == std::vector{std::byte{0x8a}});
  CHECK(groups.payload(0, 1).size() == 5 * sizeof(float));
  is_close(groups.average(0), {0.3F, -0.45F, 0, 1, -0.35F, 0, 0, -0.55F});
  auto left = inputs[1];
  for (std::size_t i = 0; i < 8; ++i) left[i] -= groups.own(1)[i];
  is_close(left, {0.3F, 0, 0.1F, 0, 0.45F, -0.2F, 0, 0});

  auto nothing = groups_by_hand{fssdp::threshold_compressor{.threshold = 2}, {1, 8}, 2};
  nothing.exchange(inputs);
  CHECK(nothing.payload(0, 1).empty());
  CHECK(nothing.average(1) == floats(8));
}

TEST_CASE("thresholds: at least the share that is to be dropped is below them") {
  auto const input = floats{5, -1, 2, 3, -4, 0, 0, 1, 9, -8};
  auto groups = groups_by_hand{fssdp::threshold_compressor{.dropped = 0.75}, {1, 10}, 1};
  groups.exchange({input});
  CHECK(groups.own(0) == floats{0, 0, 0, 0, 0, 0, 0, 0, 9, -8});  // 8 of 10: rounded up
  auto wide = groups_by_hand{fssdp::threshold_compressor{.dropped = 0.75}, {1, 100}, 1};
  auto ramp = floats(100);
  for (std::size_t i = 0; i < 100; ++i) ramp[i] = static_cast<float>(i) - 50;
  wide.exchange({ramp});
  CHECK(wide.payload(0, 0).size() == 13);
  CHECK(wide.payload(0, 1).size() == 25 * sizeof(float));
}
