// SPDX-License-Identifier: Apache-2.0
/// EPLB: the published examples, cases worked by hand, laws, and a naive reference.
#include "fssdp/solver/expert_load_balancer.hpp"

#include <set>
#include <vector>

#include "catch.hpp"
#include "support/laws.hpp"
#include "support/lists.hpp"
#include "support/naive_eplb.hpp"
#include "support/scaled.hpp"

using fssdp::expert_id;
using fssdp::expert_load_balancer;
using fssdp::expert_loads;
using fssdp::node_id;
using fssdp::physical_experts;
using fssdp::rank_id;
using fssdp::topology;

namespace {

/// A problem of either policy, many of equal loads.
struct random_eplb {
  expert_load_balancer solve;
  expert_loads loads;

  explicit random_eplb(std::uint64_t seed) {
    auto draw = support::dice{seed};
    auto const nodes = draw.between(1, 3);
    auto const ranks = nodes * draw.between(1, 3);
    solve.groups = draw.between(1, 4);
    solve.topology = topology{{.nodes = nodes, .ranks = ranks}};
    auto const experts = solve.groups * draw.between(1, 5);
    auto const slots = (experts + ranks - 1) / ranks + draw.between(0, 15 / ranks);
    solve.replicas = slots * ranks;
    auto const most = draw.one_of(std::vector{0, 1, 4, 1000, 1'000'000});
    for (int e = 0; e < experts; ++e)
      loads.push_back(static_cast<std::uint64_t>(draw.between(0, most)));
  }
};

template <class Law>
void for_random_eplb(Law law) {
  for (auto seed = std::uint64_t{1}; seed <= std::uint64_t{support::law_instances}; ++seed) {
    CAPTURE(seed);
    law(random_eplb{seed});
  }
}

[[nodiscard]] std::vector<int> eplb(expert_load_balancer const& solve, expert_loads const& loads) {
  return support::values(solve(loads).physical_to_logical());
}

[[nodiscard]] std::vector<int> eplb_counts(physical_experts const& slots) {
  auto counts = std::vector<int>{};
  for (auto const expert : fssdp::first_n<expert_id>(slots.experts()))
    counts.push_back(slots.logical_count(expert));
  return counts;
}

/// What each rank bears if the slots of an expert share its load evenly.
[[nodiscard]] std::vector<double> eplb_rank_loads(physical_experts const& slots,
                                                  expert_loads const& loads) {
  auto borne = std::vector<double>{};
  for (auto const rank : fssdp::first_n<rank_id>(slots.ranks())) {
    borne.push_back(0);
    for (auto const expert : slots.on(rank))
      borne.back() += static_cast<double>(loads[expert.index()]) / slots.logical_count(expert);
  }
  return borne;
}

}  // namespace

// EPLB, README and published example, MIT (github.com/deepseek-ai/EPLB): 12 experts in 4 groups, 16
// replicas on 2 nodes of 4.
TEST_CASE("EPLB: the two layers of the published example come out to the slot") {
  auto const solve = expert_load_balancer{
      .replicas = 16, .groups = 4, .topology = topology{{.nodes = 2, .ranks = 8}}};
  auto const first = expert_loads{90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86};
  REQUIRE(eplb(solve, first) == std::vector{5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1});
  REQUIRE(eplb_counts(solve(first)) == std::vector{1, 2, 1, 1, 2, 2, 1, 1, 1, 1, 2, 1});
  REQUIRE(eplb_rank_loads(solve(first), first) ==
          std::vector{121.5, 86.5, 125.0, 113.0, 147.5, 131.5, 156.0, 152.0});
  auto const second = expert_loads{20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27};
  REQUIRE(eplb(solve, second) == std::vector{7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1});
  REQUIRE(eplb_counts(solve(second)) == std::vector{1, 2, 1, 1, 1, 2, 2, 1, 2, 1, 1, 1});
  REQUIRE(eplb_rank_loads(solve(second), second) ==
          std::vector{173.0, 179.5, 120.5, 172.0, 123.0, 152.0, 118.5, 117.5});
}

TEST_CASE("EPLB: where groups do not divide by nodes the policy is global") {
  // Three groups on two nodes. 6 slots for 3 experts: e1 (12, then 6), e1 (6 is as much as e0's,
  // but e0 is lower): e0 (6, then 3), e1 (12 / 3 = 4). Replicas e0 e1 e2 e1 e0 e1 of 3 4 1 4 3 4;
  // by share: 1 3 5 0 4 2. Ranks of three: e1 to d0, e1 to d1, e1 to d0 (8), e0 to d1 (7), e0 to d1
  // (10, full), e2 to d0.
  auto const solve = expert_load_balancer{
      .replicas = 6, .groups = 3, .topology = topology{{.nodes = 2, .ranks = 2}}};
  REQUIRE(eplb(solve, {6, 12, 1}) == std::vector{1, 1, 2, 1, 0, 0});
  // One slot each: replicas stay in the order in which they came.
  auto const single = expert_load_balancer{
      .replicas = 5, .groups = 2, .topology = topology{{.nodes = 5, .ranks = 5}}};
  REQUIRE(eplb(single, {1, 9, 4, 2}) == std::vector{0, 1, 2, 3, 1});
}

TEST_CASE("EPLB: nodes get the slots of their own ranks, in whatever order these are") {
  // Groups {e0, e1} of 3 and {e2, e3} of 30, one per node: in order. Each node has two slots a
  // rank. n0: e1 (2, then 1), e0 (1 is as much, and lower): e0 e1 e1 e0, shares 1/2 1 1 1/2: d0 e1,
  // d3 e1, d0 e0, d3 e0.   n1: e3 (20, 10), e2 (10, 5): e2 e3 e3 e2 the same way to d1 and d2.
  auto const mixed = topology{{node_id{0}, node_id{1}, node_id{1}, node_id{0}}};
  auto const solve = expert_load_balancer{.replicas = 8, .groups = 2, .topology = mixed};
  REQUIRE(eplb(solve, {1, 2, 10, 20}) == std::vector{1, 0, 3, 2, 3, 2, 1, 0});
}

TEST_CASE("EPLB agrees with its naive reference") {
  for_random_eplb([](random_eplb const& of) {
    auto const& solve = of.solve;
    auto const naive = support::naive_eplb{solve.replicas, solve.groups, solve.topology.nodes(),
                                           solve.topology.ranks()};
    REQUIRE(eplb(solve, of.loads) == naive(of.loads));
  });
}

TEST_CASE("EPLB: the scale of the loads changes nothing, up to the end of 64 bits") {
  for_random_eplb([](random_eplb const& of) {
    auto const expected = of.solve(of.loads);
    for (auto const factor : support::scales(of.loads))
      REQUIRE(of.solve(support::scaled(of.loads, factor)) == expected);
  });
}

TEST_CASE("EPLB: where groups divide by nodes, each is on one node, and nodes have as many") {
  for_random_eplb([](random_eplb const& of) {
    auto const& topo = of.solve.topology;
    if (of.solve.groups % topo.nodes() != 0) return;
    auto const slots = of.solve(of.loads);
    auto const size = slots.experts() / of.solve.groups;
    auto groups = std::vector<std::set<int>>(static_cast<std::size_t>(topo.nodes()));
    for (auto const rank : fssdp::first_n<rank_id>(slots.ranks()))
      for (auto const expert : slots.on(rank))
        groups[topo.node(rank).index()].insert(expert.value() / size);
    auto all = std::set<int>{};
    for (auto const& of_node : groups) {
      REQUIRE(static_cast<int>(of_node.size()) == of.solve.groups / topo.nodes());
      all.insert(of_node.begin(), of_node.end());
    }
    REQUIRE(static_cast<int>(all.size()) == of.solve.groups);
  });
}

TEST_CASE("EPLB: one replica more never makes the largest load per replica larger") {
  for_random_eplb([](random_eplb const& of) {
    auto solve = of.solve;
    solve.topology = topology{{.nodes = 1, .ranks = solve.topology.ranks()}};
    auto const largest = [&] {
      auto const counts = eplb_counts(solve(of.loads));
      auto most = fssdp::load_share{};
      for (std::size_t e = 0; e < counts.size(); ++e)
        most = std::max(most, fssdp::load_share{of.loads[e], counts[e]});
      return most;
    };
    auto const before = largest();
    solve.replicas += solve.topology.ranks();
    REQUIRE(largest() <= before);
  });
}

TEST_CASE("EPLB: without loads the first expert of a node takes all that is left") {
  // Replicas e0 e1 e0 e0; no rank ever bears more than another, so the first is filled up first.
  auto const solve = expert_load_balancer{
      .replicas = 8, .groups = 2, .topology = topology{{.nodes = 2, .ranks = 4}}};
  REQUIRE(eplb(solve, expert_loads(4)) == std::vector{0, 1, 0, 0, 2, 3, 2, 2});
}

TEST_CASE("EPLB refuses numbers that do not divide, and names them") {
  auto const topo = topology{{.nodes = 2, .ranks = 4}};
  auto const refuses = [](expert_load_balancer const& solve, std::size_t experts,
                          auto const& named) {
    auto const loads = expert_loads(experts, 1);
    REQUIRE_THROWS_AS(solve(loads), fssdp::argument_error);
    REQUIRE_THROWS_WITH(solve(loads), named);
  };
  refuses({.replicas = 8, .groups = 2, .topology = topo}, 0, mentions("0 experts"));
  refuses({.replicas = 8, .groups = 2}, 4, mentions("0 ranks"));
  refuses({.replicas = 4, .groups = 2, .topology = topo}, 6,
          mentions("4 replicas") && mentions("6"));
  refuses({.replicas = -4, .groups = 2, .topology = topo}, 6, mentions("-4 replicas"));
  refuses({.replicas = 9, .groups = 2, .topology = topo}, 6,
          mentions("9 replicas") && mentions("4 ranks"));
  refuses({.replicas = 8, .groups = 0, .topology = topo}, 6, mentions("0 groups"));
  refuses({.replicas = 8, .groups = 2, .topology = topo}, 7,
          mentions("7 experts") && mentions("2 groups"));
  auto const uneven = topology{{node_id{0}, node_id{1}, node_id{1}}};
  refuses({.replicas = 6, .groups = 2, .topology = uneven}, 4, mentions("2 ranks on node 1"));
  REQUIRE_NOTHROW(
      expert_load_balancer{.replicas = 6, .groups = 1, .topology = uneven}(expert_loads(4)));
}
