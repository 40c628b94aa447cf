// SPDX-License-Identifier: Apache-2.0
/// accumulate sums in order, in the accumulator's type, scales once and rounds once.
#include "fssdp/element/accumulate.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"
#include "support/small_integers.hpp"

using fssdp::accumulator_t;
using fssdp::bf16;
using fssdp::fp16;
using fssdp::fp8_e4m3;
using fssdp::fp8_e5m2;
using fssdp::summand;

namespace {

/// Operands of random numbers, some of them sums already.
template <class T>
struct operands {
  std::vector<std::vector<T>> partials;
  std::vector<std::vector<accumulator_t<T>>> sums;
  std::vector<summand> list;

  operands(support::dice& draw, int count, std::size_t size) {
    auto const number = [&] { return draw.between(-1'000'000, 1'000'000) * 1e-3; };
    for (int i = 0; i < count; ++i) {
      if (draw.chance(50)) {
        auto& values = partials.emplace_back(size);
        for (auto& value : values) value = support::to<T>(number());
        list.push_back({.partial = values.data()});
      } else {
        auto& values = sums.emplace_back(size);
        for (auto& value : values) value = static_cast<accumulator_t<T>>(number());
        list.push_back({.summed = values.data()});
      }
    }
  }

  /// Left to right, one element.
  [[nodiscard]] accumulator_t<T> sum(std::size_t i) const {
    auto const at = [i](summand const& s) {
      return s.partial != nullptr
                 ? static_cast<accumulator_t<T>>(static_cast<T const*>(s.partial)[i])
                 : static_cast<accumulator_t<T> const*>(s.summed)[i];
    };
    auto total = at(list.front());
    for (std::size_t s = 1; s < list.size(); ++s) total += at(list[s]);
    return total;
  }
};

/// A number of any size, zeroes of either sign among them.
[[nodiscard]] double any_number(support::dice& draw) {
  if (draw.chance(10)) return draw.chance(50) ? 0.0 : -0.0;
  return std::ldexp(draw.between(-1'000'000, 1'000'000), draw.between(-40, 20));
}

/// How many elements have other bits. One NaN is as good as another.
template <class Out>
[[nodiscard]] int other_bits(std::span<Out const> a, std::span<Out const> b) {
  auto wrong = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    auto const both_nan = std::isnan(support::from(a[i])) && std::isnan(support::from(b[i]));
    wrong += both_nan || std::memcmp(&a[i], &b[i], sizeof(Out)) == 0 ? 0 : 1;
  }
  return wrong;
}

/// A random sum against a loop over its elements. `out` begins anywhere; the guards around it must
/// stay what they are.
template <class T, class Out>
[[nodiscard]] int wrong_bits(support::dice& draw, int most_operands, std::size_t size) {
  using sum_type = accumulator_t<T>;
  using wide = std::common_type_t<sum_type, accumulator_t<Out>>;
  constexpr auto guards = std::size_t{40};
  auto of = operands<T>{draw, draw.between(1, most_operands), size};
  auto const anything = [&](auto& lists) {
    for (auto& list : lists)
      for (auto& value : list) value = static_cast<std::decay_t<decltype(value)>>(any_number(draw));
  };
  if (draw.chance(50)) anything(of.partials);
  if (draw.chance(50)) anything(of.sums);
  auto const how = draw.chance(70) ? fssdp::write_mode::overwrite : fssdp::write_mode::accumulate;
  auto const scale = draw.chance(50) ? sum_type{1} : static_cast<sum_type>(any_number(draw));
  auto out = std::vector<Out>(size + 2 * guards);
  for (auto& value : out) value = support::to<Out>(any_number(draw));
  auto expected = out;
  auto const first = static_cast<std::size_t>(draw.between(0, guards));
  for (std::size_t i = 0; i < size; ++i) {
    auto& value = expected[first + i];
    auto const sum = scale * of.sum(i);
    value = static_cast<Out>(how == fssdp::write_mode::overwrite
                                 ? static_cast<wide>(sum)
                                 : static_cast<wide>(value) + static_cast<wide>(sum));
  }
  fssdp::accumulate<T, Out>(of.list, std::span{out}.subspan(first, size), scale, how);
  return other_bits<Out>(out, expected);
}

template <class T, class Out>
void has_the_bits_of_a_loop() {
  for (int seed = 1; seed <= support::law_instances / 50 + 1; ++seed) {
    CAPTURE(seed);
    auto draw = support::dice{static_cast<std::uint64_t>(seed)};
    auto const size = static_cast<std::size_t>(draw.between(0, draw.chance(50) ? 20 : 1100));
    REQUIRE(wrong_bits<T, Out>(draw, draw.chance(50) ? 4 : 13, size) == 0);
  }
}
template <class T>
void into_all_types() {
  SECTION("into float") { has_the_bits_of_a_loop<T, float>(); }
  SECTION("into bf16") { has_the_bits_of_a_loop<T, bf16>(); }
  SECTION("into double") { has_the_bits_of_a_loop<T, double>(); }
  SECTION("into fp16") { has_the_bits_of_a_loop<T, fp16>(); }
  SECTION("into e4m3") { has_the_bits_of_a_loop<T, fp8_e4m3>(); }
  SECTION("into e5m2") { has_the_bits_of_a_loop<T, fp8_e5m2>(); }
}

template <class T, class Out>
void agrees_with_a_loop() {
  using sum_type = accumulator_t<T>;
  auto draw = support::dice{5};
  for (std::size_t size : {0U, 1U, 7U, 1023U, 1024U, 1025U, 3000U})
    for (int count = 1; count <= 5; ++count)
      for (auto const how : {fssdp::write_mode::overwrite, fssdp::write_mode::accumulate}) {
        CAPTURE(size, count, static_cast<int>(how));
        auto const of = operands<T>{draw, count, size};
        auto const scale = static_cast<sum_type>(draw.between(1, 9)) / sum_type{8};
        auto out = std::vector<Out>(size, support::to<Out>(3));
        fssdp::accumulate<T, Out>(of.list, out, scale, how);
        auto wrong = 0;
        for (std::size_t i = 0; i < size; ++i) {
          auto const before = how == fssdp::write_mode::overwrite ? sum_type{0} : sum_type{3};
          auto const expected = static_cast<Out>(before + scale * of.sum(i));
          wrong += support::from(out[i]) != support::from(expected) ? 1 : 0;
        }
        REQUIRE(wrong == 0);
      }
}

}  // namespace

TEST_CASE("a sum is what a loop from left to right gives, on either side of a block") {
  SECTION("float") { agrees_with_a_loop<float, float>(); }
  SECTION("double") { agrees_with_a_loop<double, double>(); }
  SECTION("bf16") { agrees_with_a_loop<bf16, bf16>(); }
  SECTION("bf16 into float") { agrees_with_a_loop<bf16, float>(); }
  SECTION("float into bf16") { agrees_with_a_loop<float, bf16>(); }
}

TEMPLATE_TEST_CASE("random sums have the bits of a loop", "", float, bf16, double, fp16, fp8_e4m3,
                   fp8_e5m2) {
  into_all_types<TestType>();
}

TEMPLATE_TEST_CASE("large sums have them, too, past the caches", "", float, double, bf16) {
  auto draw = support::dice{7};
  constexpr auto from_here = fssdp::detail::large_sum / sizeof(TestType);
  for (std::size_t more : {0U, 1U, 300U})
    REQUIRE(wrong_bits<TestType, TestType>(draw, 3, from_here + more) == 0);
  REQUIRE(wrong_bits<float, TestType>(draw, 6, from_here + 511) == 0);
}

TEST_CASE("bf16: 256 and eight ones make 264, as the sum is formed in float") {
  auto const large = bf16{256.0F};
  auto const one = bf16{1.0F};
  auto list = std::vector<summand>{{.partial = &large}};
  for (int i = 0; i < 8; ++i) list.push_back({.partial = &one});
  auto sum = bf16{};
  fssdp::accumulate<bf16, bf16>(list, {&sum, 1});
  REQUIRE(static_cast<float>(sum) == 264.0F);
  REQUIRE(static_cast<float>(bf16{256.0F + 1.0F}) == 256.0F);  // step by step it would stay there
}

TEST_CASE("the order of the summands is the order of the sum") {
  auto const values = std::vector{1e8F, 1.0F, -1e8F};
  auto const sum_of = [&](std::vector<std::size_t> const& order) {
    auto list = std::vector<summand>{};
    for (auto const i : order) list.push_back({.partial = &values[i]});
    auto sum = 0.0F;
    fssdp::accumulate<float, float>(list, {&sum, 1});
    return sum;
  };
  REQUIRE(sum_of({0, 1, 2}) == 0.0F);
  REQUIRE(sum_of({0, 2, 1}) == 1.0F);
}

TEST_CASE("sums may be added to a wider type, whose bits are kept") {
  auto const there = 33554433.0;  // no float
  auto const part = std::vector{1.0F};
  auto const half = std::vector{fssdp::bf16{1.0F}};
  auto out = std::vector{there};
  auto const floats = std::vector{fssdp::summand{.partial = part.data()}};
  fssdp::accumulate<float>(std::span{floats}, std::span{out}, 1, fssdp::write_mode::accumulate);
  REQUIRE(out[0] == there + 1);
  auto const halves = std::vector{fssdp::summand{.partial = half.data()}};
  fssdp::accumulate<fssdp::bf16>(std::span{halves}, std::span{out}, 1,
                                 fssdp::write_mode::accumulate);
  REQUIRE(out[0] == there + 2);
}
