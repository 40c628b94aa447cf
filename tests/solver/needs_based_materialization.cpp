// SPDX-License-Identifier: Apache-2.0
/// Replicas where they are needed: cases worked by hand, budgets, and what evens out.
#include "fssdp/solver/needs_based_materialization.hpp"

#include <numeric>

#include "catch.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/placement/port_loads.hpp"
#include "fssdp/routing/balanced_shares.hpp"
#include "support/allocation_counter.hpp"
#include "support/laws.hpp"
#include "support/lists.hpp"

using fssdp::balanced_shares;
using fssdp::block_layout;
using fssdp::expert_loads;
using fssdp::materialization_budget;
using fssdp::needs_based_materialization;
using fssdp::placement;
using fssdp::port_loads;
using fssdp::rank_id;
using fssdp::token_demand;
using fssdp::topology;
using support::random_instance;

namespace {

[[nodiscard]] materialization_budget random_budget(support::dice& draw, int experts) {
  auto const most = draw.chance(70) ? 4 : experts + 1;
  return {draw.between(0, most), draw.between(0, most),
          draw.between(0, draw.chance(70) ? 3 : most)};
}

/// The fullest rank over the average, if tokens are spread over nodes by their ranks.
[[nodiscard]] double fullest_over_mean(placement const& where, topology const& topo,
                                       expert_loads const& loads) {
  auto demand = token_demand{};
  fssdp::detail::expect_demand(loads, topo, demand);
  auto const shares = balanced_shares{where, topo, demand};
  return fssdp::max_over_mean(shares.loads());
}

}  // namespace

TEST_CASE("every node gathers the experts that it needs most, and a hot expert gets enough ranks") {
  // Two nodes of two; expert 0 has four ranks' work, the others next to none.
  auto const topo = topology{{.nodes = 2, .ranks = 4}};
  auto const layout = block_layout{{.experts = 4, .ranks = 4}};
  auto const solve =
      needs_based_materialization{{.experts_in = 1, .experts_out = 1, .spare_slots = 1}, topo};
  auto const loads = expert_loads{1'000'000, 1, 1, 1};
  auto const where = solve(loads, layout);
  // Node 1 takes expert 0 in, once; a copy inside a node is free. Experts 2 and 3 may come to node
  // 0 only one at a time, and 1 has no slot left there.
  REQUIRE(support::holders(where)[0] == std::vector<int>{0, 1, 2, 3});
  REQUIRE(fullest_over_mean(where, topo, loads) < 1.001);
}

TEST_CASE("one slot on every rank evens out a chain of hot experts on one node") {
  // 10 ranks, an expert each. 0 and 1 have too much; who takes the surplus of 0 with its only
  // slot takes more than that, so 0 itself takes some of 1.
  auto const topo = topology{{.nodes = 1, .ranks = 10}};
  auto const layout = block_layout{{.experts = 10, .ranks = 10}};
  auto const loads = expert_loads{350, 290, 45, 45, 45, 45, 45, 45, 45, 45};
  auto const solve = needs_based_materialization{{.spare_slots = 1}, topo};
  REQUIRE(fullest_over_mean(solve(loads, layout), topo, loads) < 1.005);
}

TEST_CASE("where one node's expert would fill its port, other nodes hold it for each other") {
  // 8 nodes of one rank; each takes one expert in. All want 0 most, but then the tokens of 1 all go
  // to its owner's node. Some nodes take 1 instead.
  auto const topo = topology{{.nodes = 8, .ranks = 8}};
  auto const layout = block_layout{{.experts = 8, .ranks = 8}};
  auto const loads = expert_loads{1000, 900, 10, 10, 10, 10, 10, 10};
  auto const solve =
      needs_based_materialization{{.experts_in = 1, .experts_out = 1, .spare_slots = 1}, topo};
  auto const where = solve(loads, layout);
  REQUIRE(where.holders(fssdp::expert_id{0}).size() >= 3);
  REQUIRE(where.holders(fssdp::expert_id{1}).size() >= 3);
}

TEST_CASE("budgets are kept: what enters a node, what leaves it, slots") {
  support::for_random_instances(
      support::law_instances / 2, [seed = std::uint64_t{0}](random_instance const& of) mutable {
        auto draw = support::dice{++seed};
        auto const budget = random_budget(draw, of.layout.experts());
        auto const where = needs_based_materialization{budget, of.topo}(of.loads, of.layout);
        REQUIRE(budget.allows(port_loads{where, of.layout, of.topo}));
      });
}

TEST_CASE("with unlimited budgets the fullest rank has the average, up to 3 percent") {
  support::for_random_instances(support::law_instances / 10, [](random_instance const& of) {
    auto const all = of.layout.experts();
    auto const where = needs_based_materialization{{all, all, all}, of.topo}(of.loads, of.layout);
    auto const sum = std::accumulate(of.loads.begin(), of.loads.end(), std::uint64_t{0});
    if (sum != 0) REQUIRE(fullest_over_mean(where, of.topo, of.loads) < 1.03);
  });
}

TEST_CASE("the demand of each node counts, if it is known") {
  auto const topo = topology{{.nodes = 2, .ranks = 4}};
  auto const layout = block_layout{{.experts = 4, .ranks = 4}};
  auto const solve =
      needs_based_materialization{{.experts_in = 1, .experts_out = 2, .spare_slots = 1}, topo};
  auto demand = token_demand{2, 4};
  auto const set = [&](int node, std::vector<std::uint64_t> const& tokens) {
    std::ranges::copy(tokens, demand.of(fssdp::node_id{node}).begin());
  };
  set(0, {10, 10, 40, 30});  // of experts 2 and 3, which are owned on node 1, it needs 2 more
  set(1, {10, 80, 5, 5});    // this needs 1, though it is not the busiest of all
  auto where = placement{};
  auto memory = needs_based_materialization::workspace{};
  solve.solve_into(demand, layout, where, memory);
  auto const on_node = [&](int expert, int first) {
    return where.holds(rank_id{first}, fssdp::expert_id{expert}) ||
           where.holds(rank_id{first + 1}, fssdp::expert_id{expert});
  };
  REQUIRE(on_node(2, 0));
  REQUIRE_FALSE(on_node(3, 0));
  REQUIRE(on_node(1, 2));
  REQUIRE_FALSE(on_node(0, 2));
}

TEST_CASE("solve_into does not allocate after the first call, and equals a new solver") {
  auto memory = needs_based_materialization::workspace{};
  auto where = placement{};
  auto differing = 0;
  auto allocations = 0L;
  support::for_random_instances(200, [&](random_instance const& of) {
    auto const solve = needs_based_materialization{{4, 3, 2}, of.topo};
    auto const solve_once = [&] { solve.solve_into(of.loads, of.layout, where, memory); };
    solve_once();
    allocations += support::allocations_in(solve_once);
    differing += where == solve(of.loads, of.layout) ? 0 : 1;
  });
  REQUIRE(differing == 0);
  REQUIRE(allocations == 0);
}

TEST_CASE("needs-based: impossible options are errors that name them") {
  auto const layout = block_layout{{.experts = 2, .ranks = 2}};
  auto const refuses = [&](needs_based_materialization const& solve, char const* name,
                           char const* expected) {
    REQUIRE_THROWS_AS(solve(expert_loads{1, 2}, layout), fssdp::argument_error);
    REQUIRE_THROWS_WITH(solve(expert_loads{1, 2}, layout), mentions(name) && mentions(expected));
  };
  refuses({.budget = {.experts_in = -1}}, "experts_in is -1", "0 or more");
  refuses({.budget = {.experts_out = -2}}, "experts_out is -2", "0 or more");
  refuses({.budget = {.spare_slots = -3}}, "spare_slots is -3", "0 or more");
  refuses({}, "no budget", "paying_budget");
  refuses({.budget = {}, .topology = topology{{.nodes = 1, .ranks = 3}}}, "topology has 3 ranks",
          "expected 2");
  auto where = placement{};
  auto memory = needs_based_materialization::workspace{};
  auto const wrong = token_demand{2, 2};
  auto const solve = needs_based_materialization{.budget = {}};
  REQUIRE_THROWS_WITH(solve.solve_into(wrong, layout, where, memory),
                      mentions("demand of 2 nodes") && mentions("expected 1 and 2"));
}
