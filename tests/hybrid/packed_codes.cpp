// SPDX-License-Identifier: Apache-2.0
/// Codes in bytes, parts of a known length, and many draws at once, beside one after the other.
#include "fssdp/hybrid/packed_codes.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/hybrid/counter_random.hpp"
#include "fssdp/hybrid/fixed_parts.hpp"
#include "fssdp/hybrid/full_compressor.hpp"
#include "support/dice.hpp"

using fssdp::detail::code_array;
using fssdp::detail::packed_codes;
using fssdp::detail::part_elements;

namespace {

template <std::size_t bits>
void codes_are_packed(support::dice& draw) {
  using packed = packed_codes<bits>;
  CAPTURE(bits);
  for (auto const count : {1U, 5U, 8U, 63U, 64U}) {
    auto codes = code_array{};
    for (std::size_t i = 0; i < count; ++i)
      codes[i] = static_cast<std::uint8_t>(draw.between(0, (1 << bits) - 1));
    auto payload = std::vector<std::byte>(packed::bytes(count), std::byte{0xa5});
    packed::pack(codes, packed::part_of(std::span{payload}, 0));
    for (std::size_t i = 0; i < count; ++i) {
      auto const byte = std::to_integer<unsigned>(payload[i * bits / 8]);
      REQUIRE((byte >> i * bits % 8 & ((1U << bits) - 1)) == codes[i]);
    }
    REQUIRE(packed::unpack(payload) == codes);
  }
}

}  // namespace

TEST_CASE("codes of any width lie in bytes, the first in the lowest bits") {
  auto draw = support::dice{11};
  codes_are_packed<1>(draw);
  codes_are_packed<2>(draw);
  codes_are_packed<4>(draw);
  codes_are_packed<8>(draw);
}

TEST_CASE("a payload is cut where a part begins") {
  auto const payload = std::vector<std::byte>(20);
  auto const part = packed_codes<2>::part_of(std::span{payload}, part_elements);
  CHECK(part.data() == payload.data() + 16);
  CHECK(part.size() == 4);
  CHECK(packed_codes<2>::part_of(std::span{payload}, 0).size() == 16);
}

TEST_CASE("a short part is padded, and nothing is written beyond the output") {
  auto const from = std::vector<float>{1, 2, 3};
  auto const part = fssdp::detail::part_from(from, 1, 7);
  CHECK(part[0] == 2);
  CHECK(part[1] == 3);
  CHECK(part[2] == 7);
  CHECK(part.back() == 7);
  auto to = std::vector<float>(4);
  fssdp::detail::put_part(part, to, 2);
  CHECK(to == std::vector<float>{0, 0, 2, 3});
}

TEST_CASE("many draws at once are those that are drawn one by one") {
  auto const draw = fssdp::counter_random{fssdp::random_key(5, 6)};
  for (auto const first : {std::size_t{0}, std::size_t{12}, (std::size_t{1} << 34U) - 8}) {
    auto const many = draw.many(first);
    for (std::size_t i = 0; i < many.size(); ++i) REQUIRE(many[i] == draw[first + i]);
  }
}
