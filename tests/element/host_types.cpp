// SPDX-License-Identifier: Apache-2.0
/// Element types of other libraries: after one line they work as ours with the same bits.
#include <array>
#include <cstdint>
#include <span>
#include <type_traits>

#include "catch.hpp"
#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/codec/decode_elements.hpp"
#include "fssdp/codec/encode_elements.hpp"
#include "fssdp/codec/encode_with_feedback.hpp"
#include "fssdp/element/accumulate.hpp"
#include "fssdp/element/convert.hpp"
#include "fssdp/element/element_work.hpp"
#include "support/host_types.hpp"

static_assert(fssdp::element<host::bfloat16>);
static_assert(fssdp::element<host::float8_e4m3>);
static_assert(!fssdp::element<host::half const>);
static_assert(!fssdp::element<std::uint16_t>);
static_assert(std::is_same_v<fssdp::accumulator_t<host::half>, float>);
static_assert(std::is_same_v<fssdp::detail::native_element_t<host::half>, fssdp::fp16>);
static_assert(!fssdp::detail::native<host::bfloat16> && fssdp::detail::native<fssdp::bf16>);
static_assert(fssdp::detail::make_sum<host::half, host::bfloat16>().on_host ==
              fssdp::detail::make_sum<fssdp::fp16, fssdp::bf16>().on_host);

namespace {

[[nodiscard]] host::bfloat16 as_host(float value) { return {fssdp::bf16{value}.bits()}; }

}  // namespace

TEST_CASE("types of the same dtype are copied, not converted") {
  STATIC_REQUIRE(!fssdp::detail::make_conversion<host::bfloat16, fssdp::bf16>().changes_type());
  STATIC_REQUIRE(fssdp::detail::make_conversion<host::bfloat16, host::half>().changes_type());
}

TEST_CASE("another library's elements are converted and summed as ours of the same bits") {
  auto const from = std::array{as_host(1.5F), as_host(-3.0F), as_host(400.0F)};
  auto halves = std::array<host::half, 3>{};
  fssdp::convert(std::span<host::bfloat16 const>{from}, std::span<host::half>{halves});
  for (std::size_t i = 0; i < from.size(); ++i)
    REQUIRE(fssdp::fp16::from_bits(halves[i].x).bits() ==
            fssdp::fp16{static_cast<float>(fssdp::bf16::from_bits(from[i].x))}.bits());

  auto const partials =
      std::array{fssdp::summand{.partial = from.data()}, fssdp::summand{.partial = from.data()}};
  auto sums = std::array<host::bfloat16, 3>{};
  fssdp::accumulate<host::bfloat16>(partials, std::span<host::bfloat16>{sums}, 0.5F);
  for (std::size_t i = 0; i < from.size(); ++i) REQUIRE(sums[i].x == from[i].x);
}

TEST_CASE("codecs take another library's elements") {
  auto const coder = fssdp::bf16_codec{};
  auto const from = std::array{as_host(1.5F), as_host(-3.0F), as_host(400.0F)};
  auto payload = std::array<std::byte, 6>{};
  auto to = std::array<host::bfloat16, 3>{};
  REQUIRE(coder.encoded_bytes(from.size()) == payload.size());
  fssdp::encode_elements(coder, std::span<host::bfloat16 const>{from}, payload);
  fssdp::decode_elements(coder, payload, std::span<host::bfloat16>{to});
  for (std::size_t i = 0; i < from.size(); ++i) REQUIRE(to[i].x == from[i].x);
  auto residual = std::array{0.0F, 1.0F, 0.0F};
  fssdp::encode_with_feedback(coder, std::span<host::bfloat16 const>{from}, residual, payload);
  fssdp::decode_elements(coder, payload, std::span<host::bfloat16>{to});
  REQUIRE(to[1].x == as_host(-2.0F).x);
}
