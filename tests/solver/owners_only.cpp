// SPDX-License-Identifier: Apache-2.0
/// owners_only replicates nothing.
#include "fssdp/solver/owners_only.hpp"

#include "catch.hpp"
#include "support/laws.hpp"
#include "support/lists.hpp"

TEST_CASE("owners_only leaves every expert with its owner alone") {
  support::for_random_instances([](support::random_instance const& of) {
    auto owners = std::vector<std::vector<int>>{};
    for (auto const expert : fssdp::first_n<fssdp::expert_id>(of.layout.experts()))
      owners.push_back({of.layout.owner(expert).value()});
    REQUIRE(support::holders(fssdp::owners_only{}(of.loads, of.layout)) == owners);
  });
}
