// SPDX-License-Identifier: Apache-2.0
/// CUDA's element types are elements, with the bits of ours.
#include "fssdp/comm/cuda/cuda_elements.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <type_traits>

#include "catch.hpp"
#include "fssdp/element/convert.hpp"

namespace {

constexpr auto numbers = std::array{1.5F, -3.0F, 0.15625F, 256.0F};

template <class T>
using native = fssdp::detail::native_element_t<T>;
static_assert(std::is_same_v<native<__half>, fssdp::fp16>);
static_assert(std::is_same_v<native<__nv_bfloat16>, fssdp::bf16>);
static_assert(std::is_same_v<native<__nv_fp8_e4m3>, fssdp::fp8_e4m3>);
static_assert(std::is_same_v<native<__nv_fp8_e5m2>, fssdp::fp8_e5m2>);

/// Floats in a type of CUDA's, by CUDA and by the library, and back as floats.
template <class T>
[[nodiscard]] bool has_our_bits() {
  auto ours = std::array<T, numbers.size()>{};
  auto back = std::array<float, numbers.size()>{};
  fssdp::convert(std::span<float const>{numbers}, std::span<T>{ours});
  fssdp::convert(std::span<T const>{ours}, std::span<float>{back});
  auto same = back == numbers;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    auto const theirs = T{numbers[i]};
    same = same && std::ranges::equal(std::as_bytes(std::span{&theirs, 1}),
                                      std::as_bytes(std::span{&ours[i], 1}));
  }
  return same;
}

}  // namespace

TEST_CASE("CUDA's element types have the bits of ours") {
  REQUIRE(has_our_bits<__half>());
  REQUIRE(has_our_bits<__nv_bfloat16>());
  REQUIRE(has_our_bits<__nv_fp8_e4m3>());
  REQUIRE(has_our_bits<__nv_fp8_e5m2>());
}
