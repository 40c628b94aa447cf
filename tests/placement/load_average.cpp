// SPDX-License-Identifier: Apache-2.0
/// The exponential mean: cases worked by hand, and what fixed point must not do.
#include "fssdp/placement/load_average.hpp"

#include <cmath>
#include <limits>

#include "catch.hpp"
#include "support/laws.hpp"

using fssdp::expert_loads;
using fssdp::load_average;

TEST_CASE("the newest loads count 0.4, all before them together 0.6") {
  auto average = load_average{3};
  REQUIRE(average.predict() == expert_loads(3));
  average.push(expert_loads{100, 0, 7});
  REQUIRE(average.predict() == expert_loads{100, 0, 7});
  average.push(expert_loads{50, 100, 7});  // 60 + 20, 40
  REQUIRE(average.predict() == expert_loads{80, 40, 7});
  average.push(expert_loads{0, 101, 7});  // 48, 24 + 40.4, rounded up
  REQUIRE(average.predict() == expert_loads{48, 65, 7});
}

TEST_CASE("a weight of 1 gives the last loads, a weight of 1/2 the mean of old and new") {
  auto last = load_average{2, {.numerator = 3, .denominator = 3}};
  last.push(expert_loads{9, 1});
  last.push(expert_loads{2, 4});
  REQUIRE(last.predict() == expert_loads{2, 4});
  auto half = load_average{2, {.numerator = 1, .denominator = 2}};
  half.push(expert_loads{9, 1});
  half.push(expert_loads{2, 5});
  REQUIRE(half.predict() == expert_loads{6, 3});
}

TEST_CASE("a constant history is predicted exactly, from the first iteration on") {
  support::for_random_instances([](support::random_instance const& of) {
    auto average = load_average{of.layout.experts()};
    auto same = true;
    for (int step = 0; step < 8; ++step) {
      average.push(of.loads);
      same = same && average.predict() == of.loads;
    }
    REQUIRE(same);
  });
}

TEST_CASE("the mean of loads at the end of 64 bits does not overflow") {
  constexpr auto end = std::numeric_limits<std::uint64_t>::max();
  for (auto const& newest : {load_average::alpha{}, load_average::alpha{65'535, 65'536},
                             load_average::alpha{1, 65'536}}) {
    auto average = load_average{3, newest};
    for (int step = 0; step < 100; ++step) {
      average.push(expert_loads{end, end - 1, 0});
      REQUIRE(average.predict() == expert_loads{end, end - 1, 0});
    }
    average.resize(4);
    REQUIRE(average.predict().back() == end / 3 * 2);
    average.push(expert_loads{0, end, end, end});
    REQUIRE(average.predict()[1] == end);
  }
  auto average = load_average{1};
  average.push(expert_loads{end});
  average.push(expert_loads{0});
  REQUIRE(average.predict() == expert_loads{end / 5 * 3});
}

TEST_CASE("fixed point stays within a token of the real mean") {
  auto draw = support::dice{17};
  for (auto const& newest : {load_average::alpha{}, load_average::alpha{1, 100}}) {
    auto average = load_average{1, newest};
    auto real = 0.0;
    for (int step = 0; step < 1000; ++step) {
      auto const now = draw.between(0, 100'000);
      average.push(expert_loads{static_cast<std::uint64_t>(now)});
      auto const weight =
          step == 0 ? 1.0 : newest.numerator / static_cast<double>(newest.denominator);
      real += (now - real) * weight;
      auto const predicted = static_cast<double>(average.predict().front());
      REQUIRE(predicted >= std::floor(real - 1e-6));
      REQUIRE(predicted <= std::ceil(real + 1e-6));
    }
  }
}

TEST_CASE("loads that stop are eventually forgotten") {
  auto average = load_average{2};
  average.push(expert_loads{1'000'000, 3});
  for (int step = 0; step < 200; ++step) average.push(expert_loads{0, 3});
  REQUIRE(average.predict() == expert_loads{0, 3});
}

TEST_CASE("an impossible weight is refused") {
  for (auto const& wrong :
       {load_average::alpha{0, 5}, load_average::alpha{-1, 5}, load_average::alpha{6, 5},
        load_average::alpha{0, 0}, load_average::alpha{1, 65'537}})
    REQUIRE_THROWS_AS((load_average{4, wrong}), fssdp::argument_error);
  REQUIRE_THROWS_WITH((load_average{4, {6, 5}}), mentions("6 / 5") && mentions("at most 1"));
  REQUIRE_THROWS_WITH((load_average{0}), mentions("0 experts") && mentions("1 or more"));
}
