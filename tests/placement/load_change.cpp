// SPDX-License-Identifier: Apache-2.0
/// The change of loads, as a share of tokens.
#include <vector>

#include "catch.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/placement/loads.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"

using fssdp::load_change;
using loads = fssdp::expert_loads;

TEST_CASE("the change of loads is the share of tokens that go elsewhere") {
  CHECK(load_change(loads{50, 50}, loads{50, 50}) == 0);
  CHECK(load_change(loads{50, 50}, loads{5, 5}) == 0);
  CHECK(load_change(loads{60, 40}, loads{50, 50}) == Approx(0.1));
  CHECK(load_change(loads{100, 0}, loads{0, 7}) == 1);
  CHECK(load_change(loads{0, 0}, loads{0, 0}) == 0);
  CHECK(load_change(loads{0, 0}, loads{3, 0}) == 1);
  CHECK(load_change(loads{3, 0}, loads{0, 0}) == 1);
  CHECK_THROWS_AS(load_change(loads{1, 2}, loads{1}), fssdp::argument_error);
}

TEST_CASE("the change of loads is a distance") {
  auto draw = support::dice{1};
  for (int n = 0; n < support::law_instances; ++n) {
    auto const any = [&] {
      auto some = loads(5);
      for (auto& load : some) load = static_cast<std::uint64_t>(draw.between(0, 99));
      some[0] += 1;
      return some;
    };
    auto const a = any();
    auto const b = any();
    auto const c = any();
    CAPTURE(n, a, b, c);
    REQUIRE(load_change(a, b) == Approx(load_change(b, a)));
    REQUIRE(load_change(a, c) <= load_change(a, b) + load_change(b, c) + 1e-12);
    REQUIRE(load_change(a, b) >= 0);
    REQUIRE(load_change(a, b) <= 1);
  }
}
