// SPDX-License-Identifier: Apache-2.0
/// Owners of items do not depend on the numbering of items, ranks and nodes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/solver/ownership_planner.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"
#include "support/random_items.hpp"

using fssdp::item_id;
using fssdp::node_id;
using fssdp::ownership_plan;
using fssdp::ownership_planner;
using fssdp::rank_id;
using fssdp::topology;
using support::dice;
using support::random_items;

namespace {

[[nodiscard]] ownership_planner some_planner(dice& draw) {
  auto solve = ownership_planner{.trials = 20'000, .exact_items = draw.one_of(std::vector{0, 8})};
  if (draw.chance(50)) solve.price_per_byte = draw.between(1, 100) * 1e-10;
  if (draw.chance(20)) solve.weights.load = 0;
  return solve;
}
[[nodiscard]] ownership_plan plan_of(ownership_planner const& solve, random_items const& of) {
  return solve(of.items, of.topo, of.constraints, of.before);
}
/// [old] = new
[[nodiscard]] std::vector<int> other_names(std::size_t count, dice& draw) {
  auto names = std::vector<int>(count);
  std::iota(names.begin(), names.end(), 0);
  draw.shuffle(names);
  return names;
}
/// No two items, or sets that go together, of equal amounts.
void end_ties(random_items& of, dice& draw) {
  for (auto& item : of.items) {
    item.bytes += static_cast<std::uint64_t>(draw.between(1, 1 << 30));
    item.step_cost += static_cast<std::uint64_t>(draw.between(1, 1 << 30));
  }
}

[[nodiscard]] random_items with_items_renamed(random_items of, std::vector<int> const& names) {
  auto const before = of;
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto const name = static_cast<std::size_t>(names[i]);
    of.items[name] = before.items[i];
    if (!before.before.empty()) of.before[name] = before.before[i];
  }
  auto const rename = [&](item_id& item) { item = item_id{names[item.index()]}; };
  for (auto* sets : {&of.constraints.together, &of.constraints.apart, &of.constraints.near})
    for (auto& set : *sets) std::ranges::for_each(set, rename);
  for (auto& choice : of.constraints.on_ranks) rename(choice.item);
  std::ranges::for_each(of.constraints.same_node, rename);
  return of;
}

[[nodiscard]] random_items with_ranks_renamed(random_items of, std::vector<int> const& ranks,
                                              std::vector<int> const& nodes) {
  auto node_of = std::vector<node_id>(ranks.size());
  for (auto const rank : fssdp::first_n<rank_id>(of.topo.ranks()))
    node_of[static_cast<std::size_t>(ranks[rank.index()])] =
        node_id{nodes[of.topo.node(rank).index()]};
  of.topo = topology{std::move(node_of), {{}}, of.topo.network()};
  for (auto& choice : of.constraints.on_ranks)
    for (auto& rank : choice.ranks) rank = rank_id{ranks[rank.index()]};
  return of;
}

}  // namespace

TEST_CASE("owned items by other names get the same owners, if no two amounts are equal") {
  support::for_random_items([](random_items of) {
    auto draw = dice{of.items.size()};
    end_ties(of, draw);
    auto const solve = some_planner(draw);
    auto const names = other_names(of.items.size(), draw);
    auto const plan = plan_of(solve, of);
    auto const other = plan_of(solve, with_items_renamed(of, names));
    for (std::size_t i = 0; i < names.size(); ++i)
      REQUIRE(other.owners[static_cast<std::size_t>(names[i])] == plan.owners[i]);
    REQUIRE(other.fullness == plan.fullness);
    REQUIRE(other.moved_bytes == plan.moved_bytes);
  });
}

TEST_CASE("owned items: renumbered ranks and nodes leave the fullness of each place") {
  support::for_random_items([](random_items of) {
    auto draw = dice{of.items.size()};
    of.before.clear();
    of.constraints.same_node.clear();
    end_ties(of, draw);
    auto const solve = some_planner(draw);
    auto const ranks = other_names(static_cast<std::size_t>(of.topo.ranks()), draw);
    auto const nodes = other_names(static_cast<std::size_t>(of.topo.nodes()), draw);
    auto const plan = plan_of(solve, of);
    auto const other = plan_of(solve, with_ranks_renamed(of, ranks, nodes));
    REQUIRE(other.fullness == plan.fullness);
    REQUIRE(other.bound == plan.bound);
    REQUIRE(other.most == plan.most);
    REQUIRE(other.near_sets == plan.near_sets);
  });
}

TEST_CASE("owned items of equal amounts: which is which decides nothing but who owns which") {
  support::for_random_items([](random_items of) {
    auto draw = dice{of.items.size()};
    of.before.clear();
    of.constraints = {};
    for (auto& item : of.items) item = of.items.front();
    auto const names = other_names(of.items.size(), draw);
    auto const other = ownership_planner{}(with_items_renamed(of, names).items, of.topo);
    REQUIRE(other == ownership_planner{}(of.items, of.topo));
  });
}
