// SPDX-License-Identifier: Apache-2.0
/// Experts through ports: golden cases, and what plans make of placements.
#include "fssdp/placement/port_loads.hpp"

#include <set>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/node_aware_plan.hpp"
#include "fssdp/plan/traffic.hpp"
#include "support/laws.hpp"
#include "support/reversed_layout.hpp"

using fssdp::port_loads;
using fssdp::rank_id;

namespace {

/// A placement with these holders of each expert, and what it moves.
template <fssdp::shard_layout Layout>
[[nodiscard]] port_loads loads_of(Layout const& layout,
                                  std::vector<std::vector<int>> const& holders,
                                  fssdp::topology const& topo) {
  auto where = fssdp::placement{layout};
  for (std::size_t e = 0; e < holders.size(); ++e)
    for (auto const rank : holders[e]) where.add(fssdp::expert_id{e}, rank_id{rank});
  return {where, layout, topo};
}

using counts = std::vector<int>;

}  // namespace

TEST_CASE("G1: the ports of two nodes") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 4}};
  auto const topo = fssdp::topology{{.nodes = 2, .ranks = 4}};
  auto const ports = loads_of(layout, {{0}, {0, 1, 2, 3}, {0, 1, 2, 3}, {3}}, topo);
  REQUIRE(ports.into_node == counts{1, 1});
  REQUIRE(ports.out_of_node == counts{1, 1});
  REQUIRE(ports.into_rank == counts{2, 1, 1, 2});
  REQUIRE(ports.between_nodes == 2);
  REQUIRE(ports.between_nodes * 4'718'592 == 9'437'184);  // bytes, d_model 768
  REQUIRE(ports.busiest_node() == 1);
  REQUIRE(ports.busiest_rank() == 2);
}

TEST_CASE("G6: the ports of four nodes") {
  auto const layout = support::reversed_layout{8, {rank_id{0}, rank_id{4}}};  // x, y
  auto const topo = fssdp::topology{{.nodes = 4, .ranks = 8}};
  auto const ports = loads_of(layout, {{2, 3, 4, 7}, {0, 1, 6}}, topo);
  REQUIRE(ports.into_node == counts{1, 1, 1, 2});
  REQUIRE(ports.out_of_node == counts{1, 0, 1, 0});
  REQUIRE(ports.into_rank == counts{1, 1, 1, 1, 1, 0, 1, 1});
  REQUIRE(ports.between_nodes == 5);
  REQUIRE(ports.busiest_node() == 2);
  REQUIRE(ports.busiest_rank() == 1);
}

TEST_CASE("nothing moves through the ports of a topology alone") {
  auto const ports = port_loads{fssdp::topology{{.nodes = 2, .ranks = 5}}};
  REQUIRE(ports.into_node == counts{0, 0});
  REQUIRE(ports.out_of_node == counts{0, 0});
  REQUIRE(ports.into_rank == counts{0, 0, 0, 0, 0});
  REQUIRE(ports.busiest_node() == 0);
  REQUIRE(ports.busiest_rank() == 0);
}

TEST_CASE("without a topology ranks take in what they do on one node") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 3}};
  auto const ports = loads_of(layout, {{0, 2}, {0, 1, 2}}, {});
  REQUIRE(ports.into_node == counts{0});
  REQUIRE(ports.between_nodes == 0);
  REQUIRE(ports.into_rank == counts{1, 0, 2});
}

TEST_CASE("ports of a topology with another number of ranks are refused") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 3}};
  auto const of_four = fssdp::topology{{.nodes = 2, .ranks = 4}};
  REQUIRE_THROWS_AS(loads_of(layout, {}, of_four), fssdp::argument_error);
  REQUIRE_THROWS_WITH(loads_of(layout, {}, of_four), mentions("topology has 4") && mentions("3"));
}

TEST_CASE("a plan that enters nodes once takes in as many, and sends out no fewer") {
  support::for_random_instances(
      support::law_instances,
      [](support::random_instance const& of) {
        auto const ports = port_loads{of.where, of.layout, of.topo};
        auto const plan = fssdp::detail::node_aware_plan({of.layout, of.where, of.topo});
        auto const moved = traffic(plan, of.topo);
        REQUIRE(moved.into_node == ports.into_node);
        REQUIRE(moved.into_rank == ports.into_rank);  // without pieces no rank relays
        REQUIRE(moved.between_nodes == ports.between_nodes);
        auto leaving = std::vector<std::set<int>>(ports.out_of_node.size());  // owned there
        auto fewer = 0;
        for (auto const& t : plan.transfers()) {
          auto const owner_node = of.topo.node(of.layout.owner(t.chunk));
          if (of.topo.node(t.source) == owner_node && of.topo.node(t.destination) != owner_node)
            leaving[owner_node.index()].insert(t.chunk.expert.value());
        }
        for (std::size_t node = 0; node < leaving.size(); ++node) {
          REQUIRE(static_cast<int>(leaving[node].size()) == ports.out_of_node[node]);
          fewer += moved.out_of_node[node] < ports.out_of_node[node] ? 1 : 0;
        }
        REQUIRE(fewer == 0);
      },
      {.slices = 1});
}
