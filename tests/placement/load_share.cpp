// SPDX-License-Identifier: Apache-2.0
/// Shares and their sums are compared exactly, as fractions.
#include "fssdp/placement/load_share.hpp"

#include <limits>
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"

using fssdp::load_share;
using fssdp::load_share_sum;

namespace {

[[nodiscard]] load_share_sum share_sum(std::vector<load_share> const& shares) {
  auto sum = load_share_sum{};
  for (auto const& share : shares) sum.add(share);
  return sum;
}

/// -1, 0 or 1.
template <class T>
[[nodiscard]] int share_order(T const& a, T const& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

}  // namespace

TEST_CASE("shares compare like the quotients that they are") {
  REQUIRE(load_share{7, 2} > load_share{10, 3});
  REQUIRE(load_share{7, 2} == load_share{21, 6});
  REQUIRE(load_share{0, 5} == load_share{});
  constexpr auto end = std::numeric_limits<std::uint64_t>::max();
  REQUIRE(load_share{end, 3} > load_share{end - 1, 3});
  REQUIRE(load_share{end, 1'000'001} < load_share{end - 1, 1'000'000});
}

TEST_CASE("three thirds are equal to a whole, and slightly less is not") {
  constexpr auto end = std::numeric_limits<std::uint64_t>::max();
  REQUIRE(share_sum({{1, 3}, {1, 3}, {1, 3}}) == share_sum({{1, 1}}));
  REQUIRE(share_sum({{1, 2}, {1, 3}, {1, 6}}) == share_sum({{1, 1}}));
  REQUIRE(share_sum({{1, 2}, {1, 3}}) == share_sum({{5, 6}}));
  REQUIRE(share_sum({{1, 2}, {1, 3}, {1, 7}}) < share_sum({{1, 1}}));
  REQUIRE(share_sum({{end, 3}, {end, 3}, {end, 3}}) == share_sum({{end, 1}}));
  REQUIRE(share_sum({{end, 7}, {end, 11}}) == share_sum({{load_share::wide{end} * 18, 77}}));
  // 1/p - 1/q for large p and q: closer than any double tells.
  REQUIRE(share_sum({{1, 2'147'483'647}, {1, 3}}) < share_sum({{1, 2'147'483'646}, {1, 3}}));
  REQUIRE(share_sum({{2'147'483'646, 2'147'483'647}, {1, 2'147'483'647}}) == share_sum({{1, 1}}));
  REQUIRE(share_sum({{2'147'483'645, 2'147'483'646}, {1, 2'147'483'647}}) < share_sum({{1, 1}}));
  REQUIRE(share_sum({{2'147'483'646, 2'147'483'647}, {1, 2'147'483'646}}) > share_sum({{1, 1}}));
}

TEST_CASE("sums of shares compare as with a common denominator") {
  auto draw = support::dice{5};
  for (int step = 0; step < support::law_instances; ++step) {
    CAPTURE(step);
    auto const draw_sum = [&](std::vector<load_share>& list) {
      auto numerator = 0LL;  // over 720,720, which 1 to 16 divide
      for (int i = draw.between(0, 6); i > 0; --i) {
        auto const load = draw.between(0, draw.chance(50) ? 3 : 100);
        auto const replicas = draw.between(1, 16);
        list.push_back({static_cast<load_share::wide>(load), replicas});
        numerator += 720'720LL / replicas * load;
      }
      return numerator;
    };
    auto a = std::vector<load_share>{};
    auto b = std::vector<load_share>{};
    auto const of_a = draw_sum(a);
    auto const of_b = draw_sum(b);
    REQUIRE(share_order(share_sum(a), share_sum(b)) == share_order(of_a, of_b));
    REQUIRE((share_sum(a) == share_sum(b)) == (of_a == of_b));
    // What makes up the difference makes them equal, and a bit less or more does not.
    auto const least = std::min(of_a, of_b);
    auto& lesser = of_a < of_b ? a : b;
    auto const& larger = of_a < of_b ? b : a;
    lesser.push_back({static_cast<load_share::wide>(std::max(of_a, of_b) - least), 720'720});
    REQUIRE(share_sum(lesser) == share_sum(larger));
    lesser.push_back({1, 720'720 * 1000});
    REQUIRE(share_sum(lesser) > share_sum(larger));
  }
}
