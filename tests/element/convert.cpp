// SPDX-License-Identifier: Apache-2.0
/// convert: between any two element types, rounded once, to nearest even.
#include "fssdp/element/convert.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "catch.hpp"
#include "support/dice.hpp"
#include "support/nearest_16_bits.hpp"
#include "support/nearest_fp8.hpp"
#include "support/small_integers.hpp"

using fssdp::bf16;
using fssdp::fp16;
using fssdp::fp8_e4m3;
using fssdp::fp8_e5m2;

namespace {

/// The element that is nearest to a number.
template <class To>
[[nodiscard]] To rounded(double value) {
  if constexpr (std::is_floating_point_v<To>)
    return static_cast<To>(value);  // by the processor
  else
    return To::from_bits(support::nearest_bits<To>(value));
}

/// Equal numbers of equal sign.
template <class T>
[[nodiscard]] bool same(T a, T b) {
  auto const x = support::from(a);
  auto const y = support::from(b);
  return x == y && std::signbit(x) == std::signbit(y);
}

/// Small and large ones, beside midpoints of both 16-bit types, infinities and zeroes.
template <class From>
[[nodiscard]] std::vector<From> numbers() {
  auto draw = support::dice{5};
  auto list = std::vector<From>{};
  for (int i = 0; i < 5000; ++i) {
    auto const of_bf16 = static_cast<std::uint32_t>(
        draw.between(0, static_cast<int>(support::infinity_bits<bf16>) - 1));
    auto const of_fp16 = static_cast<std::uint32_t>(
        draw.between(0, static_cast<int>(support::infinity_bits<fp16>) - 1));
    auto const beside = 1 + draw.between(-3, 3) * std::ldexp(1.0, -draw.between(20, 45));
    for (auto const value :
         {support::midpoint_above<bf16>(of_bf16) * beside,
          support::midpoint_above<fp16>(of_fp16) * beside,
          std::ldexp(draw.between(-1'000'000, 1'000'000), draw.between(-60, 20))})
      list.push_back(rounded<From>(draw.chance(50) ? value : -value));
  }
  for (auto const value : {0.0, -0.0, std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity(), 65520.0, 65504.0, 1e-40})
    list.push_back(rounded<From>(value));
  return list;
}

template <class From, class To>
void converts_once() {
  auto const from = numbers<From>();
  auto to = std::vector<To>(from.size());
  fssdp::convert(std::span<From const>{from}, std::span{to});
  auto wrong = 0;
  for (std::size_t i = 0; i < from.size(); ++i)
    wrong += same(to[i], rounded<To>(support::from(from[i]))) ? 0 : 1;
  REQUIRE(wrong == 0);

  auto const nan = std::vector<From>(1, From{std::numeric_limits<float>::quiet_NaN()});
  fssdp::convert(std::span<From const>{nan}, std::span{to}.first(1));
  REQUIRE(std::isnan(support::from(to[0])));
}

template <class From>
void converts_to_all() {
  SECTION("to float") { converts_once<From, float>(); }
  SECTION("to double") { converts_once<From, double>(); }
  SECTION("to bf16") { converts_once<From, bf16>(); }
  SECTION("to fp16") { converts_once<From, fp16>(); }
}

template <class From, class To>
void becomes_the_nearest_fp8(std::vector<From> from) {
  std::erase_if(from, [](From value) { return !std::isfinite(support::from(value)); });
  auto to = std::vector<To>(from.size());
  fssdp::convert(std::span<From const>{from}, std::span{to});
  auto wrong = 0;
  for (std::size_t i = 0; i < from.size(); ++i)
    wrong += to[i].bits() == support::nearest_fp8<To>(support::from(from[i])) ? 0 : 1;
  REQUIRE(wrong == 0);
}

/// All codes of fp8.
template <class T>
[[nodiscard]] std::vector<T> all_fp8() {
  auto list = std::vector<T>{};
  for (int code = 0; code < 0x100; ++code)
    list.push_back(T::from_bits(static_cast<std::uint8_t>(code)));
  return list;
}

/// All codes of fp8 in another type, which has room for each of these numbers.
template <class From, class To>
void keeps_all_fp8() {
  auto const from = all_fp8<From>();
  auto to = std::vector<To>(from.size());
  fssdp::convert(std::span<From const>{from}, std::span{to});
  auto wrong = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    auto const both_nan = std::isnan(support::from(from[i])) && std::isnan(support::from(to[i]));
    wrong += both_nan || (support::from(to[i]) == support::from(from[i]) &&
                          std::signbit(support::from(to[i])) == (i >= 0x80))
                 ? 0
                 : 1;
  }
  REQUIRE(wrong == 0);
}

}  // namespace

TEMPLATE_TEST_CASE("elements become the nearest fp8", "", float, double, bf16, fp16) {
  SECTION("to e4m3") { becomes_the_nearest_fp8<TestType, fp8_e4m3>(numbers<TestType>()); }
  SECTION("to e5m2") { becomes_the_nearest_fp8<TestType, fp8_e5m2>(numbers<TestType>()); }
}

TEMPLATE_TEST_CASE("fp8 becomes what it is in all wider types", "", float, double, bf16, fp16) {
  SECTION("from e4m3") { keeps_all_fp8<fp8_e4m3, TestType>(); }
  SECTION("from e5m2") { keeps_all_fp8<fp8_e5m2, TestType>(); }
}

TEST_CASE("fp8 becomes the nearest of the other fp8, and a NaN where that has no infinity") {
  becomes_the_nearest_fp8<fp8_e4m3, fp8_e5m2>(all_fp8<fp8_e4m3>());
  becomes_the_nearest_fp8<fp8_e5m2, fp8_e4m3>(all_fp8<fp8_e5m2>());
  auto const from =
      std::vector{fp8_e5m2::from_bits(0x7c), fp8_e5m2::from_bits(0xfc), fp8_e5m2::from_bits(0x7f)};
  auto to = std::vector<fp8_e4m3>(3);
  fssdp::convert(std::span{from}, std::span{to});
  for (auto const value : to) REQUIRE(std::isnan(support::from(value)));
  auto const nan = fp8_e4m3::from_bits(0xff);
  auto wider = fp8_e5m2{};
  fssdp::convert(std::span{&nan, 1}, std::span{&wider, 1});
  REQUIRE(std::isnan(support::from(wider)));
}

TEMPLATE_TEST_CASE("elements become the nearest of any other type", "", float, double, bf16, fp16) {
  converts_to_all<TestType>();
}

TEST_CASE("values of the same type keep their bits, also if the type is no element") {
  auto const from =
      std::vector{bf16::from_bits(0x7f81), bf16::from_bits(0x8000)};  // a signalling NaN
  auto to = std::vector<bf16>(2);
  fssdp::convert(std::span<bf16 const>{from}, std::span{to});
  REQUIRE(to[0].bits() == 0x7f81);
  REQUIRE(to[1].bits() == 0x8000);
  auto const numbers = std::vector{1, 2, 3};
  auto copy = std::vector<int>(3);
  fssdp::convert(std::span<int const>{numbers}, std::span{copy});
  REQUIRE(copy == numbers);
}

TEST_CASE("an empty range can be converted, and nothing after the end is written") {
  auto to = std::vector<fp16>(3, fp16{7.0F});
  fssdp::convert(std::span<float const>{}, std::span{to}.first(0));
  auto const from = std::vector{1.0F, 2.0F};
  fssdp::convert(std::span<float const>{from}, std::span{to}.first(2));
  REQUIRE(support::from(to[1]) == 2);
  REQUIRE(support::from(to[2]) == 7);
}
