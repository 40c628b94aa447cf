// SPDX-License-Identifier: Apache-2.0
/// EPLB's replicas beside given owners: cases worked by hand, and laws.
#include "fssdp/solver/eplb_materialization.hpp"

#include <algorithm>
#include <vector>

#include "catch.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "fssdp/solver/fit_slots.hpp"
#include "support/laws.hpp"
#include "support/lists.hpp"

using fssdp::block_layout;
using fssdp::eplb_materialization;
using fssdp::expert_id;
using fssdp::expert_loads;
using fssdp::rank_id;
using fssdp::topology;
using support::random_instance;

namespace {

using replica_lists = std::vector<std::vector<int>>;

[[nodiscard]] expert_loads without_zero(expert_loads loads) {
  for (auto& load : loads) ++load;
  return loads;
}

}  // namespace

TEST_CASE("EPLB beside owners: the largest load per replica goes to the least loaded rank") {
  // Four slots. e1 (60, 30), e1 (30 is as much as e2's, and lower; then 20), e2 (30, 15), and e1
  // again (20, 15), which all ranks then hold. Loads 10 15 15 20. e1: d0 (25), d2 (30), d3 (35). e2
  // (15): d1, the last with a slot.
  auto const layout = block_layout{{.experts = 4, .ranks = 4}};
  auto const solve = eplb_materialization{.spare_slots = 1};
  REQUIRE(support::holders(solve(expert_loads{10, 60, 30, 20}, layout)) ==
          replica_lists{{0}, {0, 1, 2, 3}, {1, 2}, {3}});
}

TEST_CASE("EPLB beside owners: replicas stay in the node of the owner") {
  // n0: e1 (60, 30): all of n0; then e0. n1: e2, then e3.
  auto const layout = block_layout{{.experts = 4, .ranks = 4}};
  auto const solve =
      eplb_materialization{.spare_slots = 1, .topology = topology{{.nodes = 2, .ranks = 4}}};
  REQUIRE(support::holders(solve(expert_loads{10, 60, 30, 20}, layout)) ==
          replica_lists{{0, 1}, {0, 1}, {2, 3}, {2, 3}});
  support::for_random_instances([](random_instance const& of) {
    auto const most = of.layout.experts() % 5;
    auto const where = eplb_materialization{most, of.topo}(of.loads, of.layout);
    auto crossing = 0;
    for (auto const expert : fssdp::first_n<expert_id>(of.layout.experts()))
      for (auto const rank : where.holders(expert))
        crossing += of.topo.same_node(rank, of.layout.owner(expert)) ? 0 : 1;
    REQUIRE(crossing == 0);
  });
}

TEST_CASE("EPLB beside owners: no rank gets more replicas than it has slots for") {
  support::for_random_instances([](random_instance const& of) {
    auto const owners = fssdp::placement{of.layout};
    for (auto const slots : {0, 1, 3}) {
      auto const where = eplb_materialization{slots, of.topo}(of.loads, of.layout);
      auto too_many = 0;
      for (auto const rank : fssdp::first_n<rank_id>(of.layout.ranks()))
        too_many += where.held_count(rank) - owners.held_count(rank) > slots ? 1 : 0;
      REQUIRE(too_many == 0);
      if (slots == 0) REQUIRE(where == owners);
    }
  });
}

TEST_CASE("EPLB beside owners: slots for all experts of a node put all on every rank of it") {
  support::for_random_instances([](random_instance const& of) {
    auto const solve = eplb_materialization{.spare_slots = of.layout.experts()};
    REQUIRE(solve(without_zero(of.loads), of.layout) == fssdp::everywhere{}(of.layout));
  });
}

TEST_CASE("EPLB beside owners: experts without load get no replica, unless all are without") {
  auto const layout = block_layout{{.experts = 4, .ranks = 4}};
  auto const solve = eplb_materialization{.spare_slots = 2};
  REQUIRE(support::holders(solve(expert_loads{0, 7, 0, 0}, layout)) ==
          replica_lists{{0}, {0, 1, 2, 3}, {2}, {3}});
  auto const idle = solve(expert_loads(4), layout);
  REQUIRE(idle == solve(expert_loads(4, 1), layout));
  REQUIRE(idle.held_count(rank_id{0}) == 3);
}

TEST_CASE(
    "EPLB beside owners: with one slot in a node of two, the fullest rank never gets fuller") {
  // Each replica halves what the owner bears of an expert; the other takes at most that half.
  auto draw = support::dice{11};
  for (int step = 0; step < 1000; ++step) {
    auto const layout = block_layout{{.experts = 2, .ranks = 2}};
    auto const loads = expert_loads{static_cast<std::uint64_t>(draw.between(0, 100)),
                                    static_cast<std::uint64_t>(draw.between(0, 100))};
    auto const where = eplb_materialization{.spare_slots = 1}(loads, layout);
    auto borne = std::vector<std::uint64_t>(2);
    for (auto const expert : fssdp::first_n<expert_id>(2))
      for (auto const rank : where.holders(expert))
        borne[rank.index()] += 2 * loads[expert.index()] / where.holders(expert).size();
    REQUIRE(std::ranges::max(borne) <= 2 * std::ranges::max(loads));
  }
}

TEST_CASE("EPLB beside owners refuses slots below zero and a topology of other ranks") {
  auto const layout = block_layout{{.experts = 4, .ranks = 4}};
  auto const loads = expert_loads(4);
  REQUIRE_THROWS_AS(eplb_materialization{.spare_slots = -1}(loads, layout), fssdp::argument_error);
  REQUIRE_THROWS_WITH(eplb_materialization{.spare_slots = -1}(loads, layout),
                      mentions("spare_slots is -1") && mentions("0 or more"));
  auto const other = eplb_materialization{1, topology{{.nodes = 1, .ranks = 3}}};
  REQUIRE_THROWS_WITH(other(loads, layout), mentions("3 ranks") && mentions("4"));
}
