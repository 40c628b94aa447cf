// SPDX-License-Identifier: Apache-2.0
/// A rule names a routing.
#include "fssdp/routing/routing_rule.hpp"

#include <type_traits>

#include "catch.hpp"
#include "fssdp/routing/token_traffic.hpp"
#include "support/laws.hpp"
#include "support/random_counts.hpp"

using fssdp::routing_rule;

TEST_CASE("a rule gives the routing of its name") {
  support::for_random_instances(
      support::law_instances / 10, [](support::random_instance const& of) {
        auto const counts = support::random_counts(of, of.loads.size());
        auto const rows = [&](routing_rule rule) {
          return fssdp::with_routing(rule, counts, of.where, of.topo, [&](auto const& routing) {
            return fssdp::token_traffic{counts, routing, of.topo}.on_rank;
          });
        };
        auto const even = fssdp::even_routing{of.where, of.topo};
        REQUIRE(rows(routing_rule::even) == fssdp::token_traffic{counts, even, of.topo}.on_rank);
        auto const balanced = fssdp::balanced_routing{counts, of.where, of.topo};
        REQUIRE(rows(routing_rule::balanced) ==
                fssdp::token_traffic{counts, balanced, of.topo}.on_rank);
      });
}
