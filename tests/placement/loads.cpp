// SPDX-License-Identifier: Apache-2.0
/// Order and balance of loads.
#include "fssdp/placement/loads.hpp"

#include <limits>

#include "catch.hpp"
#include "support/laws.hpp"
#include "support/lists.hpp"

using fssdp::expert_loads;

TEST_CASE("experts sort by load descending, then id ascending") {
  REQUIRE(support::values(fssdp::by_load(expert_loads{10, 40, 30, 40, 0})) ==
          std::vector{1, 3, 2, 0, 4});
  REQUIRE(support::values(fssdp::by_load(expert_loads{0, 0, 0})) == std::vector{0, 1, 2});
  REQUIRE(fssdp::by_load(expert_loads{}).empty());
}

TEST_CASE("by_load is a permutation in strict order, for random loads") {
  support::for_random_instances([](support::random_instance const& of) {
    auto const order = fssdp::by_load(of.loads);
    auto in_order = order.size() == of.loads.size();
    for (std::size_t i = 1; i < order.size(); ++i) {
      auto const before = of.loads[order[i - 1].index()];
      auto const after = of.loads[order[i].index()];
      in_order = in_order && (before > after || (before == after && order[i - 1] < order[i]));
    }
    REQUIRE(in_order);  // strict, so no expert can be there twice
  });
}

TEST_CASE("max_over_mean is 1 in balance and the number of parts if one has all") {
  REQUIRE(fssdp::max_over_mean(expert_loads{5, 5, 5}) == 1.0);
  REQUIRE(fssdp::max_over_mean(expert_loads{0, 8, 0, 0}) == 4.0);
  REQUIRE(fssdp::max_over_mean(expert_loads{1, 2, 3}) == 1.5);
  REQUIRE(fssdp::max_over_mean(expert_loads{0, 0}) == 1.0);
  REQUIRE(fssdp::max_over_mean(expert_loads{}) == 1.0);
  constexpr auto half = std::uint64_t{1} << 63U;  // the sums of these wrap around
  REQUIRE(fssdp::max_over_mean(expert_loads{half, half}) == 1.0);
  REQUIRE(fssdp::max_over_mean(expert_loads{half, half, 0, 0}) == 2.0);
  REQUIRE(fssdp::max_over_mean(expert_loads(6, half)) == 1.0);
}
