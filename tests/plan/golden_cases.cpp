// SPDX-License-Identifier: Apache-2.0
/// Plans worked by hand: transfers, ports, chains, bytes.
#include "catch.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/traffic.hpp"
#include "fssdp/plan/verify.hpp"
#include "support/reversed_layout.hpp"

using fssdp::expert_id;
using fssdp::placement;
using fssdp::rank_id;
using fssdp::topology;

namespace {

/// A placement that lists the holders of each expert.
template <fssdp::shard_layout Layout>
[[nodiscard]] placement held_by(Layout const& layout,
                                std::vector<std::vector<int>> const& holders) {
  auto where = placement{layout};
  for (std::size_t e = 0; e < holders.size(); ++e)
    for (auto const rank : holders[e]) where.add(expert_id{e}, rank_id{rank});
  return where;
}

/// The nodes that an expert visits one after the other.
[[nodiscard]] std::vector<int> chain(fssdp::transfer_plan const& plan, topology const& topo,
                                     expert_id expert) {
  auto nodes = std::vector{topo.node(plan.owner(expert)).value()};
  for (auto const& t : plan.transfers())  // by round
    if (t.chunk == expert && !topo.same_node(t.source, t.destination))
      nodes.push_back(topo.node(t.destination).value());
  return nodes;
}

using ints = std::vector<int>;

}  // namespace

TEST_CASE("G1: four transfers between nodes become two") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 4}};
  auto const topo = topology{{.nodes = 2, .ranks = 4}};
  auto const where = held_by(layout, {{0}, {0, 1, 2, 3}, {0, 1, 2, 3}, {3}});
  constexpr auto chunk = 4'718'592;  // d_model 768: two matrices [768, 1536] of 16 bits

  auto const direct = make_plan(layout, where);
  auto const sent_directly = traffic(direct, topo);
  REQUIRE(direct.rounds() == 1);
  REQUIRE(direct.transfers().size() == 6);
  REQUIRE(sent_directly.between_nodes == 4);
  REQUIRE(sent_directly.inside_nodes == 2);
  REQUIRE(sent_directly.out_of_node == ints{2, 2});
  REQUIRE(sent_directly.into_node == ints{2, 2});
  REQUIRE(sent_directly.between_nodes * chunk == 18'874'368);

  auto const aware = make_plan(layout, where, topo);
  auto const sent = traffic(aware, topo);
  REQUIRE_NOTHROW(verify(aware));
  REQUIRE(aware.rounds() == 2);
  REQUIRE(aware.transfers().size() == 6);
  REQUIRE(sent.between_nodes == 2);
  REQUIRE(sent.inside_nodes == 4);
  REQUIRE(sent.out_of_node == ints{1, 1});
  REQUIRE(sent.into_node == ints{1, 1});
  REQUIRE(sent.between_nodes * chunk == 9'437'184);
}

TEST_CASE("G2, G3: what Algorithm 1 places, each replica is one transfer") {
  auto const four = fssdp::block_layout{{.experts = 4, .ranks = 4}};
  auto const topo = topology{{.nodes = 2, .ranks = 4}};
  auto const g2 = make_plan(four, held_by(four, {{0}, {1, 2}, {0, 2}, {1, 3}}), topo);
  REQUIRE_NOTHROW(verify(g2));
  REQUIRE(g2 == make_plan(four, g2.where()));  // one replica each: nothing to pass on
  REQUIRE(traffic(g2, topo).between_nodes == 3);
  REQUIRE(traffic(g2, topo).out_of_node == ints{1, 2});

  auto const three = fssdp::block_layout{{.experts = 3, .ranks = 3}};
  auto const g3 = make_plan(three, held_by(three, {{0, 1, 2}, {0, 1}, {2}}));
  REQUIRE(g3.transfers().size() == 3);
  REQUIRE(traffic(g3).inside_nodes == 3);
  REQUIRE(traffic(g3).out_of_rank == ints{2, 1, 0});
  REQUIRE(traffic(g3).into_rank == ints{1, 1, 1});
}

TEST_CASE("G6: chains with balanced leaves") {
  auto const layout = support::reversed_layout{8, {rank_id{0}, rank_id{4}}};  // x, y
  auto const topo = topology{{.nodes = 4, .ranks = 8}};
  auto const where = held_by(layout, {{2, 3, 4, 7}, {0, 1, 6}});

  auto const direct = make_plan(layout, where);
  auto const sent_directly = traffic(direct, topo);
  REQUIRE(sent_directly.between_nodes == 7);
  REQUIRE(sent_directly.inside_nodes == 0);
  REQUIRE(sent_directly.out_of_node == ints{4, 0, 3, 0});
  REQUIRE(sent_directly.into_node == ints{2, 2, 1, 2});

  auto const aware = make_plan(layout, where, topo);
  auto const sent = traffic(aware, topo);
  REQUIRE_NOTHROW(verify(aware));
  REQUIRE(sent.between_nodes == 5);
  REQUIRE(sent.inside_nodes == 2);
  REQUIRE(sent.into_node == ints{1, 1, 1, 2});
  REQUIRE(sent.out_of_node == ints{2, 1, 1, 1});
  REQUIRE(chain(aware, topo, expert_id{0}) == ints{0, 3, 1, 2});
  REQUIRE(chain(aware, topo, expert_id{1}) == ints{2, 0, 3});
}
