// SPDX-License-Identifier: Apache-2.0
// How long the parts are into which blocks of different lengths are cut.
#include "fssdp/plan/part_length.hpp"

#include <array>
#include <cstddef>

#include "catch.hpp"

using fssdp::detail::part_length;

TEST_CASE("part length: equal blocks stay whole", "[plan]") {
  CHECK(part_length(std::array<std::size_t, 3>{4096, 4096, 4096}, 16) == 4096);
}

TEST_CASE("part length: a length that divides the blocks well", "[plan]") {
  // Thirds of the longest: 3 + 1 parts, none of which is longer than its block.
  CHECK(part_length(std::array<std::size_t, 2>{3000, 1000}, 16) == 1000);
  // 12, 6, 4 and 3 parts of a twelfth have no element too many, but 13 of a sixth have 4 % only.
  CHECK(part_length(std::array<std::size_t, 4>{12'000, 6000, 4000, 3000}, 16) == 2000);
}

TEST_CASE("part length: where a message costs more, there are fewer parts", "[plan]") {
  // 9 parts of a quarter have 8 % too many, which is less than four more messages cost.
  CHECK(part_length(std::array<std::size_t, 4>{12'000, 6000, 4000, 3000}, 1500) == 3000);
}

TEST_CASE("part length: blocks as short as the least length are not cut", "[plan]") {
  CHECK(part_length(std::array<std::size_t, 2>{1500, 10}, 1500) == 1500);
  CHECK(part_length(std::array<std::size_t, 2>{1500, 750}, 751) == 1500);
}

TEST_CASE("part length: at least one element, also of no block and of empty ones", "[plan]") {
  CHECK(part_length({}, 16) == 1);
  CHECK(part_length(std::array<std::size_t, 2>{0, 0}, 16) == 1);
  CHECK(part_length(std::array<std::size_t, 2>{0, 5}, 5) == 5);
}
