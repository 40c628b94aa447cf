// SPDX-License-Identifier: Apache-2.0
/// Which types are elements, what they are as values, and in which their sums are formed.
#include "fssdp/element/dtype.hpp"

#include <type_traits>

#include "catch.hpp"

using fssdp::bf16;
using fssdp::fp16;
using fssdp::fp8_e4m3;
using fssdp::fp8_e5m2;

static_assert(fssdp::element<float>);
static_assert(fssdp::element<double>);
static_assert(fssdp::element<bf16>);
static_assert(fssdp::element<fp16>);
static_assert(fssdp::element<fp8_e4m3>);
static_assert(fssdp::element<fp8_e5m2>);
static_assert(!fssdp::element<int>);
static_assert(!fssdp::element<long double>);
static_assert(!fssdp::element<float const>);
static_assert(!std::is_convertible_v<float, bf16>, "nothing is rounded unasked");
static_assert(!std::is_convertible_v<float, fp16>, "nothing is rounded unasked");
static_assert(!std::is_convertible_v<float, fp8_e4m3>, "nothing is rounded unasked");
static_assert(!std::is_convertible_v<double, fp8_e5m2>, "nothing is rounded unasked");

TEST_CASE("sums of double are formed in double, of all others in float") {
  STATIC_REQUIRE(std::is_same_v<fssdp::accumulator_t<fp8_e4m3>, float>);
  STATIC_REQUIRE(std::is_same_v<fssdp::accumulator_t<fp8_e5m2>, float>);
  STATIC_REQUIRE(std::is_same_v<fssdp::accumulator_t<fp16>, float>);
  STATIC_REQUIRE(std::is_same_v<fssdp::accumulator_t<bf16>, float>);
  STATIC_REQUIRE(std::is_same_v<fssdp::accumulator_t<float>, float>);
  STATIC_REQUIRE(std::is_same_v<fssdp::accumulator_t<double>, double>);
}

TEST_CASE("a dtype and its type know each other") {
  for (auto const type : fssdp::all_dtypes) {
    CAPTURE(fssdp::name_of(type));
    REQUIRE(fssdp::is_valid(type));
    fssdp::with_element(type, [&]<class T>(std::type_identity<T>) {
      REQUIRE(fssdp::dtype_of<T> == type);
      REQUIRE(fssdp::bytes_of(type) == sizeof(T));
      REQUIRE(fssdp::accumulator_of(type) == fssdp::dtype_of<fssdp::accumulator_t<T>>);
      REQUIRE(std::is_same_v<fssdp::detail::native_element_t<T>, T>);
    });
  }
  REQUIRE(!fssdp::is_valid(fssdp::dtype{6}));
  REQUIRE(fssdp::name_of(fssdp::dtype::e5m2) == "fp8_e5m2");
}
