// SPDX-License-Identifier: Apache-2.0
/// Water filling: the least loaded are filled up to one level.
#include "fssdp/routing/water_fill.hpp"

#include <vector>

#include "catch.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"
#include "support/naive_pour.hpp"

namespace {

using amounts = std::vector<std::uint64_t>;

/// What each of these levels gets, in their order.
[[nodiscard]] amounts poured_over(amounts const& levels, std::uint64_t amount) {
  auto vessels = std::vector<fssdp::detail::vessel>{};
  for (auto const level : levels)
    vessels.push_back({.level = level,
                       .poured = 12345,  // of an earlier use
                       .number = static_cast<std::uint32_t>(vessels.size())});
  fssdp::detail::water_fill(vessels, amount);
  auto result = amounts(levels.size());
  for (auto const& vessel : vessels) result[vessel.number] = vessel.poured;
  return result;
}

}  // namespace

TEST_CASE("the emptiest vessels are filled until all that get any are equally full") {
  REQUIRE(poured_over({5, 1, 9}, 4) == amounts{0, 4, 0});
  REQUIRE(poured_over({5, 1, 9}, 6) == amounts{1, 5, 0});
  REQUIRE(poured_over({5, 1, 9}, 12) == amounts{4, 8, 0});
  REQUIRE(poured_over({5, 1, 9}, 15) == amounts{5, 9, 1});
}

TEST_CASE("of equally full ones, the first get what is left over") {
  REQUIRE(poured_over({3, 3, 3}, 0) == amounts{0, 0, 0});
  REQUIRE(poured_over({3, 3, 3}, 2) == amounts{1, 1, 0});
  REQUIRE(poured_over({3, 3, 3}, 7) == amounts{3, 2, 2});
  REQUIRE(poured_over({0, 0, 0, 0, 0, 0}, 2) == amounts{1, 1, 0, 0, 0, 0});
}

TEST_CASE("one vessel gets everything, none gets nothing") {
  REQUIRE(poured_over({1000}, 7) == amounts{7});
  REQUIRE(poured_over({}, 0).empty());
}

TEST_CASE("levels near 2^48 do not overflow") {
  constexpr auto much = std::uint64_t{1} << 48;
  REQUIRE(poured_over(amounts(4096, much), 4097)[0] == 2);
  REQUIRE(poured_over({much, 0}, much + 6) == amounts{3, much + 3});
}

TEST_CASE("filling at once equals filling one token at a time") {
  for (int seed = 1; seed <= support::law_instances; ++seed) {
    CAPTURE(seed);
    auto draw = support::dice{static_cast<std::uint64_t>(seed)};
    auto const highest = draw.one_of(std::vector{0, 2, 40});
    auto levels = amounts(static_cast<std::size_t>(draw.between(1, 12)));
    for (auto& level : levels) level = static_cast<std::uint64_t>(draw.between(0, highest));
    auto const amount = static_cast<std::uint64_t>(draw.between(0, draw.chance(50) ? 10 : 300));
    REQUIRE(poured_over(levels, amount) == support::naive_pour(levels, amount));
  }
}
