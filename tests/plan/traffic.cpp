// SPDX-License-Identifier: Apache-2.0
/// Ports are counted as a plain loop would count them.
#include "fssdp/plan/traffic.hpp"

#include <numeric>

#include "catch.hpp"
#include "support/laws.hpp"

using support::random_instance;

TEST_CASE("bytes sent equal bytes received, and every transfer is inside a node or between two") {
  support::for_random_instances([](random_instance const& of) {
    auto const count = fssdp::traffic(of.plan, of.topo);
    auto const sum = [](std::vector<int> const& list) {
      return std::accumulate(list.begin(), list.end(), 0);
    };
    auto const all = static_cast<int>(of.plan.transfers().size());
    REQUIRE(count.inside_nodes + count.between_nodes == all);
    REQUIRE(sum(count.out_of_node) == count.between_nodes);
    REQUIRE(sum(count.into_node) == count.between_nodes);
    REQUIRE(sum(count.out_of_rank) == all);
    REQUIRE(sum(count.into_rank) == all);
    auto wrong = 0;
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.layout.ranks())) {
      auto out = 0;
      auto in = 0;
      for (int round = 0; round < of.plan.rounds(); ++round) {
        out += static_cast<int>(of.plan.sends(rank, round).size());
        in += static_cast<int>(of.plan.receives(rank, round).size());
      }
      wrong += count.out_of_rank[rank.index()] != out ? 1 : 0;
      wrong += count.into_rank[rank.index()] != in ? 1 : 0;
    }
    REQUIRE(wrong == 0);
  });
}

TEST_CASE("without a topology all is inside one node") {
  support::for_random_instances([](random_instance const& of) {
    auto const count = fssdp::traffic(of.plan);
    REQUIRE(count.between_nodes == 0);
    REQUIRE(count.inside_nodes == static_cast<int>(of.plan.transfers().size()));
  });
}

TEST_CASE("a topology of another world is refused") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
  auto const plan = fssdp::make_plan(layout, fssdp::placement{layout});
  auto const topo = fssdp::topology{{.nodes = 1, .ranks = 3}};
  REQUIRE_THROWS_AS(fssdp::traffic(plan, topo), fssdp::argument_error);
  REQUIRE_THROWS_WITH(fssdp::traffic(plan, topo), mentions("3 ranks") && mentions("expected 2"));
}
