// SPDX-License-Identifier: Apache-2.0
/// Routings as tables.
#include "fssdp/routing/routing_table.hpp"

#include <map>

#include "catch.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/routing/balanced_routing.hpp"
#include "fssdp/routing/even_routing.hpp"
#include "fssdp/token/token_plan.hpp"
#include "support/laws.hpp"
#include "support/random_counts.hpp"

using fssdp::expert_id;
using fssdp::placement;
using fssdp::rank_id;
using fssdp::token_counts;
using fssdp::token_flow;

TEST_CASE("a table by hand: a hot expert on two ranks") {
  auto where = placement{fssdp::block_layout{{.experts = 2, .ranks = 2}}};
  where.add(expert_id{0}, rank_id{1});
  auto const counts = token_counts{2, 2, {6, 2, 6, 0}};
  auto const r = [](int rank) { return rank_id{rank}; };
  auto const e = [](int expert) { return expert_id{expert}; };
  REQUIRE(
      routing_table(counts, fssdp::even_routing{where}) ==
      std::vector<token_flow>{{r(0), e(0), r(0), 6}, {r(0), e(1), r(1), 2}, {r(1), e(0), r(1), 6}});
  // 14 tokens: 7 on each. Expert 1 brings 2 to rank 1, so it passes one of expert 0 on.
  REQUIRE(routing_table(counts, fssdp::balanced_routing{counts, where}) ==
          std::vector<token_flow>{{r(0), e(0), r(0), 6},
                                  {r(0), e(1), r(1), 2},
                                  {r(1), e(0), r(0), 1},
                                  {r(1), e(0), r(1), 5}});
}

TEST_CASE("a table has what the token plans of all ranks send") {
  support::for_random_instances(
      support::law_instances / 20,
      [seed = std::uint64_t{0}](support::random_instance const& of) mutable {
        auto const counts = support::random_counts(of, ++seed);
        auto const routing = fssdp::balanced_routing{counts, of.where, of.topo};
        auto sent = std::vector<token_flow>{};
        for (auto const rank : fssdp::first_n<rank_id>(counts.ranks())) {
          auto const plan = fssdp::token_plan{counts, routing, rank};
          for (auto const& segment : plan.sends())
            sent.push_back({rank, segment.expert, segment.peer, segment.rows});
        }
        REQUIRE(routing_table(counts, routing) == sent);
      });
}

TEST_CASE("a table of counts that do not fit is refused") {
  auto const where = placement{fssdp::block_layout{{.experts = 2, .ranks = 2}}};
  auto const counts = token_counts{1, 2, {1, 2}};
  REQUIRE_THROWS_WITH(routing_table(counts, fssdp::even_routing{where}),
                      mentions("counts of 1 ranks") && mentions("2 and 2"));
}
