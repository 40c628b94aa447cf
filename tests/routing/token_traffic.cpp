// SPDX-License-Identifier: Apache-2.0
/// Tokens on devices and through ports: a case worked by hand, and laws.
#include "fssdp/routing/token_traffic.hpp"

#include <numeric>
#include <vector>

#include "catch.hpp"
#include "fssdp/routing/even_routing.hpp"
#include "fssdp/routing/token_demand.hpp"
#include "support/golden_dispatch.hpp"
#include "support/laws.hpp"
#include "support/naive_routing.hpp"
#include "support/random_counts.hpp"

using fssdp::even_routing;
using fssdp::expert_id;
using fssdp::rank_id;
using fssdp::token_counts;
using fssdp::token_traffic;
using support::random_instance;

namespace {

using tokens_of = std::vector<std::uint64_t>;

[[nodiscard]] std::uint64_t sum_of(std::span<std::uint64_t const> values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

}  // namespace

TEST_CASE("G5: loads, and tokens inside and between nodes") {
  auto const of = support::golden_dispatch{};
  auto const count = token_traffic{of.counts, even_routing{of.where, of.topo}, of.topo};
  REQUIRE(count.on_rank == tokens_of{11, 3, 21, 5});
  REQUIRE(count.into_rank == tokens_of{5, 0, 11, 3});
  REQUIRE(count.out_of_rank == tokens_of{0, 5, 3, 11});
  REQUIRE(count.into_node == tokens_of{0, 4});
  REQUIRE(count.out_of_node == tokens_of{4, 0});
}

TEST_CASE("without a topology all ranks sit on one node") {
  auto const of = support::golden_dispatch{};
  auto const count = token_traffic{of.counts, even_routing{of.where}};
  REQUIRE(count.into_node == tokens_of{0});
  REQUIRE(count.out_of_node == tokens_of{0});
  REQUIRE(sum_of(count.into_rank) == sum_of(count.out_of_rank));
  REQUIRE(sum_of(count.on_rank) == 40);
}

TEST_CASE("traffic is that of every token by itself") {
  support::for_random_instances([seed = std::uint64_t{0}](random_instance const& of) mutable {
    auto const counts = support::random_counts(of, ++seed);
    auto const found = token_traffic{counts, even_routing{of.where, of.topo}, of.topo};
    auto expected = found;
    for (auto* list : {&expected.on_rank, &expected.into_rank, &expected.out_of_rank,
                       &expected.into_node, &expected.out_of_node})
      std::ranges::fill(*list, 0);
    for (auto const source : fssdp::first_n<rank_id>(counts.ranks()))
      for (auto const expert : fssdp::first_n<expert_id>(counts.experts()))
        for (auto const to : support::naive_receivers(of.where, of.topo, source, expert,
                                                      static_cast<int>(counts(source, expert)))) {
          auto const inside = of.topo.node(source) == of.topo.node(to);
          ++expected.on_rank[to.index()];
          expected.into_rank[to.index()] += inside && source != to ? 1 : 0;
          expected.out_of_rank[source.index()] += inside && source != to ? 1 : 0;
          expected.into_node[of.topo.node(to).index()] += inside ? 0 : 1;
          expected.out_of_node[of.topo.node(source).index()] += inside ? 0 : 1;
        }
    REQUIRE(found.on_rank == expected.on_rank);
    REQUIRE(found.into_rank == expected.into_rank);
    REQUIRE(found.out_of_rank == expected.out_of_rank);
    REQUIRE(found.into_node == expected.into_node);
    REQUIRE(found.out_of_node == expected.out_of_node);
  });
}

TEST_CASE("the demand of a node is the sum of its ranks' counts") {
  support::for_random_instances([seed = std::uint64_t{0}](random_instance const& of) mutable {
    auto const counts = support::random_counts(of, ++seed);
    auto const demand = fssdp::token_demand{counts, of.topo};
    auto expected = fssdp::token_demand{of.topo.nodes(), counts.experts()};
    auto wrong = 0;
    for (auto const rank : fssdp::first_n<rank_id>(counts.ranks()))
      for (auto const expert : fssdp::first_n<expert_id>(counts.experts()))
        expected.of(of.topo.node(rank))[expert.index()] += counts(rank, expert);
    for (auto const node : fssdp::first_n<fssdp::node_id>(of.topo.nodes()))
      for (auto const expert : fssdp::first_n<expert_id>(counts.experts()))
        wrong += demand(node, expert) != expected(node, expert) ? 1 : 0;
    REQUIRE(wrong == 0);
  });
}

TEST_CASE("traffic of counts, placements and topologies that do not fit together is refused") {
  auto const of = support::golden_dispatch{};
  auto const count = [&](token_counts const& counts, fssdp::topology const& topo) {
    return token_traffic{counts, even_routing{of.where}, topo};
  };
  auto const five_ranks = token_counts{5, 3, tokens_of(15)};
  auto const two_experts = token_counts{4, 2, tokens_of(8)};
  auto const of_five = fssdp::topology{{.nodes = 2, .ranks = 5}};
  REQUIRE_THROWS_AS(count(five_ranks, {}), fssdp::argument_error);
  REQUIRE_THROWS_WITH(count(five_ranks, {}), mentions("counts of 5 ranks") && mentions("4 and 3"));
  REQUIRE_THROWS_WITH(count(two_experts, {}), mentions("2 experts") && mentions("4 and 3"));
  REQUIRE_THROWS_WITH(count(of.counts, of_five), mentions("topology has 5") && mentions("4"));
}
