// SPDX-License-Identifier: Apache-2.0
/// Algorithm 1: cases worked by hand, laws, and a naive reference.
#include "fssdp/solver/sparse_materialization.hpp"

#include <limits>
#include <numeric>

#include "catch.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "support/laws.hpp"
#include "support/lists.hpp"
#include "support/naive_algorithm_1.hpp"

using fssdp::block_layout;
using fssdp::expert_id;
using fssdp::expert_loads;
using fssdp::placement;
using fssdp::rank_id;
using fssdp::sparse_materialization;
using fssdp::topology;
using support::random_instance;

namespace {

using holder_lists = std::vector<std::vector<int>>;

/// The experts that a rank holds and does not own.
[[nodiscard]] int extras(placement const& where, support::reversed_layout const& layout,
                         rank_id rank) {
  auto count = 0;
  for (auto const expert : fssdp::first_n<expert_id>(layout.experts()))
    count += where.holds(rank, expert) && layout.owner(expert) != rank ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("G1: two nodes of two, two experts for all ranks") {
  auto const solve = sparse_materialization{
      .overlap = 2, .spare_slots = 2, .topology = topology{{.nodes = 2, .ranks = 4}}};
  auto const where = solve(expert_loads{10, 40, 30, 20}, block_layout{{.experts = 4, .ranks = 4}});
  REQUIRE(support::holders(where) == holder_lists{{0}, {0, 1, 2, 3}, {0, 1, 2, 3}, {3}});
}

TEST_CASE("G2: three experts share four slots") {
  auto const solve = sparse_materialization{
      .overlap = 3, .spare_slots = 1, .topology = topology{{.nodes = 2, .ranks = 4}}};
  auto const where = solve(expert_loads{10, 40, 30, 20}, block_layout{{.experts = 4, .ranks = 4}});
  REQUIRE(support::holders(where) == holder_lists{{0}, {1, 2}, {0, 2}, {1, 3}});
  REQUIRE(where.held_count(rank_id{3}) == 1);  // its slot stays free
}

TEST_CASE("G3: one node, an expert with nearly all tokens") {
  auto const solve = sparse_materialization{.overlap = 2, .spare_slots = 1};
  auto const where = solve(expert_loads{90, 9, 1}, block_layout{{.experts = 3, .ranks = 3}});
  REQUIRE(support::holders(where) == holder_lists{{0, 1, 2}, {0, 1}, {2}});
}

TEST_CASE("of equal nodes the lower one wins, even if a device of the other is freer") {
  // Shares 3, 2, 2, 1 in the order e2, e0, e1, e3. When the second replica of e1 is due, both nodes
  // hold it and have three free slots: d1 has one that it can use, d3 has two.
  auto const r = [](int rank) { return rank_id{rank}; };
  auto const layout = support::reversed_layout{4, {r(0), r(0), r(3), r(3)}};
  auto const solve = sparse_materialization{
      .overlap = 4, .spare_slots = 3, .topology = topology{{.nodes = 2, .ranks = 4}}};
  REQUIRE(support::holders(solve(expert_loads{4, 3, 9, 1}, layout)) ==
          holder_lists{{0, 1, 3}, {0, 1, 2}, {0, 1, 2, 3}, {0, 3}});
}

TEST_CASE("Algorithm 1 agrees with its naive reference") {
  support::for_random_instances([](random_instance const& of) {
    auto const naive = support::naive_algorithm_1(of.solve.overlap, of.solve.spare_slots, of.topo,
                                                  of.loads, of.layout);
    REQUIRE(support::holders(of.solve(of.loads, of.layout)) == support::holders(naive));
  });
}

TEST_CASE("extras stay within m, and only the t most loaded are replicated") {
  support::for_random_instances([](random_instance const& of) {
    auto const where = of.solve(of.loads, of.layout);
    auto most = 0;
    for (auto const rank : fssdp::first_n<rank_id>(of.layout.ranks()))
      most = std::max(most, extras(where, of.layout, rank));
    REQUIRE(most <= of.solve.spare_slots);
    auto position = 0;
    auto strays = 0;
    for (auto const expert : fssdp::by_load(of.loads))
      if (position++ >= of.solve.overlap && where.holders(expert).size() > 1) ++strays;
    REQUIRE(strays == 0);
  });
}

TEST_CASE("no overlap or no slot: nothing moves, enough of both: all ranks hold all experts") {
  support::for_random_instances([](random_instance const& of) {
    auto const all = of.layout.experts();
    auto solve = of.solve;
    solve.overlap = 0;
    REQUIRE(solve(of.loads, of.layout) == placement{of.layout});
    solve = of.solve;
    solve.spare_slots = 0;
    REQUIRE(solve(of.loads, of.layout) == placement{of.layout});
    solve.overlap = solve.spare_slots = all;
    REQUIRE(solve(of.loads, of.layout) == fssdp::everywhere{}(of.layout));
  });
}

TEST_CASE("relabelled experts get relabelled holders, if no two loads are equal") {
  support::for_random_instances([](random_instance const& of) {
    auto draw = support::dice{of.loads.size()};
    auto distinct = of.loads;
    for (std::size_t e = 0; e < distinct.size(); ++e)
      distinct[e] = distinct[e] * distinct.size() + e;
    auto label = std::vector<std::size_t>(distinct.size());  // [new] = old
    std::iota(label.begin(), label.end(), std::size_t{0});
    draw.shuffle(label);
    auto loads = expert_loads{};
    auto owners = std::vector<rank_id>{};
    for (auto const old : label) {
      loads.push_back(distinct[old]);
      owners.push_back(of.layout.owner(expert_id{old}));
    }
    auto const before = support::holders(of.solve(distinct, of.layout));
    auto expected = holder_lists{};
    for (auto const old : label) expected.push_back(before[old]);
    auto const layout = support::reversed_layout{of.layout.ranks(), owners};
    REQUIRE(support::holders(of.solve(loads, layout)) == expected);
  });
}

TEST_CASE("one rank, one expert, loads near the end of 64 bits") {
  constexpr auto huge = std::numeric_limits<std::uint64_t>::max();
  auto const solve = sparse_materialization{.overlap = 3, .spare_slots = 2};
  auto const alone = block_layout{{.experts = 3, .ranks = 1}};
  REQUIRE(solve(expert_loads{1, 2, 3}, alone) == placement{alone});
  auto const single = block_layout{{.experts = 1, .ranks = 3}};
  REQUIRE(solve(expert_loads{7}, single) == fssdp::everywhere{}(single));
  auto const layout = block_layout{{.experts = 4, .ranks = 4}};
  REQUIRE(solve(expert_loads{huge, huge, huge, huge}, layout) ==
          solve(expert_loads{1, 1, 1, 1}, layout));
}

TEST_CASE("impossible options are errors that name them") {
  auto const layout = block_layout{{.experts = 2, .ranks = 2}};
  auto const loads = expert_loads{1, 2};
  auto const refuses = [&](sparse_materialization const& solve, char const* name,
                           char const* expected) {
    REQUIRE_THROWS_AS(solve(loads, layout), fssdp::argument_error);
    REQUIRE_THROWS_WITH(solve(loads, layout), mentions(name) && mentions(expected));
  };
  refuses({.overlap = -1}, "overlap is -1", "0 or more");
  refuses({.overlap = 1, .spare_slots = -2}, "spare_slots is -2", "0 or more");
  refuses({.overlap = 1, .spare_slots = 1, .topology = topology{{.nodes = 1, .ranks = 3}}},
          "topology has 3 ranks", "expected 2");
}
