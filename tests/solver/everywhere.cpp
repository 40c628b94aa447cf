// SPDX-License-Identifier: Apache-2.0
/// everywhere replicates everything.
#include "fssdp/solver/everywhere.hpp"

#include "catch.hpp"
#include "support/laws.hpp"

TEST_CASE("everywhere lets every rank hold every expert, whatever the loads are") {
  support::for_random_instances([](support::random_instance const& of) {
    auto const where = fssdp::everywhere{}(of.loads, of.layout);
    auto missing = 0;
    for (auto const expert : fssdp::first_n<fssdp::expert_id>(of.layout.experts()))
      for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.layout.ranks()))
        missing += where.holds(rank, expert) ? 0 : 1;
    REQUIRE(missing == 0);
    REQUIRE(where == fssdp::everywhere{}(of.layout));
  });
}
