// SPDX-License-Identifier: Apache-2.0
/// Codecs do not allocate.
#include <cstddef>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/codec/decode_elements.hpp"
#include "fssdp/codec/encode_elements.hpp"
#include "fssdp/codec/encode_with_feedback.hpp"
#include "fssdp/codec/fp8_e4m3_codec.hpp"
#include "fssdp/codec/fp8_e5m2_codec.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "support/allocation_counter.hpp"

using support::allocations_in;

TEMPLATE_TEST_CASE("encoding and decoding allocate nothing", "", fssdp::bf16_codec,
                   fssdp::fp8_e4m3_codec, fssdp::fp8_e5m2_codec, fssdp::int8_codec) {
  auto numbers = std::vector<int>{};
  REQUIRE(allocations_in([&] { numbers.resize(10); }) == 1);  // the counter counts
  auto const coder = TestType{};
  auto const floats = std::vector<float>(3000, 1.5F);
  auto const doubles = std::vector<double>(3000, 1.5);
  auto to = std::vector<float>(3000);
  auto halves = std::vector<fssdp::bf16>(3000);
  auto payload = std::vector<std::byte>(coder.encoded_bytes(3000));
  auto const received = std::span<std::byte const>{payload};
  REQUIRE(allocations_in([&] {
            coder.encode(floats, payload);
            coder.decode(payload, to);
            fssdp::encode_elements(coder, std::span<double const>{doubles}, std::span{payload});
            fssdp::decode_elements(coder, received, std::span{halves});
            fssdp::encode_with_feedback(coder, std::span<float const>{floats}, std::span{to},
                                        std::span{payload});
          }) == 0);
}
