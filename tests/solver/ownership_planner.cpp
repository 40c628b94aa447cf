// SPDX-License-Identifier: Apache-2.0
/// Owners for items of any size: cases worked by hand, laws, and contradictions.
#include "fssdp/solver/ownership_planner.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/core/error.hpp"
#include "support/random_items.hpp"

using fssdp::item_id;
using fssdp::node_id;
using fssdp::owned_item;
using fssdp::ownership_constraints;
using fssdp::ownership_plan;
using fssdp::ownership_planner;
using fssdp::rank_id;
using fssdp::topology;
using support::random_items;

namespace {

[[nodiscard]] std::vector<owned_item> of_bytes(std::vector<std::uint64_t> const& list) {
  auto items = std::vector<owned_item>{};
  for (auto const bytes : list) items.push_back({.bytes = bytes});
  return items;
}
[[nodiscard]] std::vector<rank_id> on(std::vector<int> const& list) {
  auto ranks = std::vector<rank_id>{};
  for (auto const rank : list) ranks.emplace_back(rank);
  return ranks;
}
[[nodiscard]] std::vector<item_id> items_of(std::vector<int> const& list) {
  auto items = std::vector<item_id>{};
  for (auto const item : list) items.emplace_back(item);
  return items;
}
[[nodiscard]] topology one_node(int ranks) { return topology{{.nodes = 1, .ranks = ranks}}; }

[[nodiscard]] ownership_plan solved(ownership_planner const& solve, random_items const& of) {
  return solve(of.items, of.topo, of.constraints, of.before);
}
[[nodiscard]] double cost(ownership_planner const& of, ownership_plan const& plan) {
  return plan.fullness + of.price_per_byte * static_cast<double>(plan.moved_bytes);
}

/// What a planner may be asked for: prices from none to more than all moves are worth, limits.
[[nodiscard]] ownership_planner any_planner(std::uint64_t seed) {
  auto draw = support::dice{seed};
  auto solve = ownership_planner{.trials = 20'000, .exact_items = draw.one_of(std::vector{0, 8})};
  if (draw.chance(50)) solve.price_per_byte = draw.between(1, 100) * 1e-10;
  if (draw.chance(30))
    solve.most_moved_bytes = static_cast<std::uint64_t>(draw.between(0, 200)) << 20U;
  if (draw.chance(20)) solve.weights.load = 0;
  if (draw.chance(20)) solve.weights.step_cost = 2;
  return solve;
}
/// The same of every case: seeds of planners go with those of items.
template <class Law>
void for_any_planner(Law law) {
  auto seed = std::uint64_t{0};
  support::for_random_items([&](random_items const& of) { law(any_planner(++seed), of); });
}

/// The fullest place, from the definition.
[[nodiscard]] double naive_fullness(ownership_planner const& of, random_items const& with,
                                    std::vector<rank_id> const& owners) {
  auto most = 0.0;
  auto const count = [&](double weight, auto amount, bool crosses) {
    auto total = 0.0;
    auto on_rank = std::map<rank_id, double>{};
    auto behind = std::map<rank_id, double>{};
    for (std::size_t i = 0; i < owners.size(); ++i) {
      auto const what = static_cast<double>(amount(with.items[i]));
      total += what;
      on_rank[owners[i]] += what;
      behind[with.topo.interface_of(owners[i])] += what;
    }
    if (total <= 0) return;
    for (auto const& [rank, sum] : on_rank)
      most = std::max(most, weight * sum * with.topo.ranks() / total);
    if (!crosses || with.topo.nodes() == 1) return;
    auto bandwidth = 0.0;
    for (auto const node : fssdp::first_n<node_id>(with.topo.nodes()))
      bandwidth += fssdp::node_bandwidth(with.topo, node);
    for (auto const& [rank, sum] : behind)
      most = std::max(most, weight * of.weights.interface * sum * bandwidth / total /
                                with.topo.port(rank).between_bytes_per_second);
  };
  count(
      of.weights.bytes, [](owned_item const& item) { return item.bytes; }, true);
  count(
      of.weights.step_cost, [](owned_item const& item) { return item.step_cost; }, false);
  count(
      of.weights.load, [](owned_item const& item) { return item.load; }, true);
  return most;
}

/// The first constraint that owners break, in words; empty: none.
[[nodiscard]] std::string broken(random_items const& of, std::vector<rank_id> const& owners) {
  auto const owner = [&](item_id item) { return owners[item.index()]; };
  auto const& asked = of.constraints;
  for (auto const rank : owners)
    if (rank.value() < 0 || rank.value() >= of.topo.ranks()) return "an owner is not a rank";
  for (auto const& set : asked.together)
    for (auto const item : set)
      if (owner(item) != owner(set.front())) return "together";
  for (auto const& set : asked.apart) {
    auto ranks = std::set<rank_id>{};
    for (auto const item : std::set<item_id>(set.begin(), set.end()))
      if (!ranks.insert(owner(item)).second) return "apart";
  }
  for (auto const& [item, ranks] : asked.on_ranks)
    if (std::ranges::count(ranks, owner(item)) == 0) return "on_ranks";
  for (auto const item : asked.same_node)
    if (!of.topo.same_node(owner(item), of.before[item.index()])) return "same_node";
  return {};
}

/// Constraints hold, and the report says what is.
void check_plan(ownership_planner const& solve, random_items const& of) {
  auto const plan = solved(solve, of);
  REQUIRE(plan.owners.size() == of.items.size());
  REQUIRE(broken(of, plan.owners) == "");
  REQUIRE(plan.fullness == Approx(naive_fullness(solve, of, plan.owners)).margin(1e-12));
  REQUIRE(plan.fullness >= plan.bound * (1 - 1e-12));
  auto moved = std::uint64_t{0};
  auto items = std::size_t{0};
  for (std::size_t i = 0; i < of.before.size(); ++i)
    if (of.before[i].value() >= 0 && of.before[i] != plan.owners[i]) {
      moved += of.items[i].bytes;
      ++items;
    }
  REQUIRE(plan.moved_bytes == moved);
  REQUIRE(plan.moved_items == items);
  REQUIRE(plan.moved_bytes <= std::max(solve.most_moved_bytes, plan.forced_bytes));
  fssdp::check_layout(plan.layout());
}

}  // namespace

TEST_CASE("owned items: the largest first is not the best, and the best is found") {
  // 3 3 2 2 2 on two ranks: 3 2 2 and 3 2 would be 7; 3 3 and 2 2 2 are 6 each.
  auto const plan = ownership_planner{}(of_bytes({3, 3, 2, 2, 2}), one_node(2));
  REQUIRE(plan.fullness == 1.0);
  REQUIRE(plan.most.bytes == 6);
  REQUIRE(plan.owners[0] == plan.owners[1]);
  REQUIRE(plan.layout().owned(plan.owners[0]).size() == 2);
}

TEST_CASE("owned items: bytes, step cost and load are even at once") {
  // Experts have bytes and load, matrices step cost: a rank gets two of each.
  auto items = std::vector<owned_item>{};
  for (int i = 0; i < 4; ++i) items.push_back({.bytes = 100, .step_cost = 1, .load = 7});
  for (int i = 0; i < 4; ++i) items.push_back({.bytes = 10, .step_cost = 50, .load = 0});
  auto const plan = ownership_planner{}(items, one_node(2));
  REQUIRE(plan.fullness == 1.0);
  REQUIRE(plan.most == owned_item{.bytes = 220, .step_cost = 102, .load = 14});
}

TEST_CASE("owned items: one that is more than a fair share is the bound") {
  // 90 of 120 bytes on four ranks: three times what is fair, wherever it is.
  auto const plan = ownership_planner{}(of_bytes({10, 90, 10, 10}), one_node(4));
  REQUIRE(plan.fullness == 3.0);
  REQUIRE(plan.bound == 3.0);
}

TEST_CASE("owned items: five equal ones on four ranks are two on one, which is the bound") {
  auto const plan = ownership_planner{}(of_bytes({8, 8, 8, 8, 8}), one_node(4));
  REQUIRE(plan.bound == 1.6);
  REQUIRE(plan.fullness == 1.6);
}

TEST_CASE("owned items: a node of one rank gets more, as its interface is as fast as the other") {
  // n0 = {d0}, n1 = {d1, d2, d3}; 12 items of 1: fair are 3 for a rank, 6 for an interface. 4 to d0
  // are 4/3 of what is fair there, and 8 to n1 are 8/6 for its interface.
  auto const topo = topology{
      {node_id{0}, node_id{1}, node_id{1}, node_id{1}}, {{}}, fssdp::network_interface::per_node};
  auto const items = of_bytes(std::vector<std::uint64_t>(12, 1));
  auto const plan = ownership_planner{}(items, topo);
  REQUIRE(plan.layout().owned(rank_id{0}).size() == 4);
  REQUIRE(plan.fullness == Approx(4.0 / 3));
  auto const ranks_only = ownership_planner{.weights = {.interface = 0}}(items, topo);
  REQUIRE(ranks_only.fullness == 1.0);
}

TEST_CASE("owned items: a move is made as soon as it pays") {
  // d0 has 3 + 1, d1 nothing: 2 of what is fair, which is 2. 1 to d1: 1.5 for one byte moved.
  auto const items = of_bytes({3, 1});
  auto const before = on({0, 0});
  auto const dear = ownership_planner{.price_per_byte = 0.51}(items, one_node(2), {}, before);
  REQUIRE(dear.owners == before);
  REQUIRE(dear.moved_bytes == 0);
  auto const cheap = ownership_planner{.price_per_byte = 0.49}(items, one_node(2), {}, before);
  REQUIRE(cheap.owners == on({0, 1}));
  REQUIRE(cheap.moved_bytes == 1);
  REQUIRE(cheap.moved_items == 1);
  REQUIRE(cheap.fullness == 1.5);
}

TEST_CASE("owned items: no more moves than is allowed") {
  // All on d0 of four. With at most 4 bytes: 8 + 4 is the best that stays, 16 / 4 fair.
  auto const items = of_bytes({8, 4, 3, 1});
  auto const before = on({0, 0, 0, 0});
  auto const plan = ownership_planner{.most_moved_bytes = 4}(items, one_node(4), {}, before);
  REQUIRE(plan.moved_bytes == 4);
  REQUIRE(plan.fullness == 3.0);
}

TEST_CASE("owned items: items that cannot stay move beyond the limit, and are counted") {
  auto const items = of_bytes({8, 4});
  auto const plan = ownership_planner{.most_moved_bytes = 0}(
      items, one_node(2), {.on_ranks = {{item_id{0}, on({1})}}}, on({0, 0}));
  REQUIRE(plan.owners == on({1, 0}));
  REQUIRE(plan.moved_bytes == 8);
  REQUIRE(plan.forced_bytes == 8);
}

TEST_CASE("owned items: those of a lost rank go where there is room, and nothing else moves") {
  auto const items = of_bytes({5, 5, 5, 5, 5, 5});
  auto const before = on({0, 0, 1, 1, -1, 2});
  auto const plan = ownership_planner{.price_per_byte = 1e-3}(items, one_node(3), {}, before);
  REQUIRE(plan.owners == on({0, 0, 1, 1, 2, 2}));
  REQUIRE(plan.moved_bytes == 0);
}

TEST_CASE("owned items: constraints are kept where that is not even") {
  auto const items = of_bytes({4, 4, 4, 4});
  auto const topo = topology{{.nodes = 2, .ranks = 4}};
  auto const plan =
      ownership_planner{}(items, topo,
                          {.together = {items_of({0, 1})},
                           .apart = {items_of({1, 2, 3})},
                           .on_ranks = {{item_id{2}, on({3, 1})}, {item_id{3}, on({1})}},
                           .same_node = items_of({0})},
                          on({3, -1, -1, -1}));
  REQUIRE(plan.owners == on({2, 2, 3, 1}));
}

TEST_CASE("owned items: sets that are to be near are on one node where that costs nothing") {
  // 8 equal items on two nodes of two, two each: any exchange is free.
  auto const topo = topology{{.nodes = 2, .ranks = 4}};
  auto const near = std::vector{items_of({0, 3, 5, 6}), items_of({1, 2, 4, 7})};
  auto const items = of_bytes(std::vector<std::uint64_t>(8, 5));
  auto const plan = ownership_planner{}(items, topo, {.near = near});
  REQUIRE(plan.near_sets == 2);
  REQUIRE(plan.fullness == 1.0);
  // Where owners are paid for, they stay.
  auto const before = on({0, 0, 1, 1, 2, 2, 3, 3});
  auto const paid = ownership_planner{.price_per_byte = 1e-6}(items, topo, {.near = near}, before);
  REQUIRE(paid.owners == before);
}

TEST_CASE("owned items: constraints hold, and the report says what is") {
  for_any_planner(check_plan);
}

TEST_CASE("owned items: on up to 300 ranks constraints hold, too") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    check_plan(any_planner(seed), {support::dice{seed}, {.ranks = 300, .items = 900}});
  }
}

TEST_CASE("owned items: keeping the old owners never costs less, up to the precision") {
  for_any_planner([](ownership_planner const& solve, random_items const& of) {
    auto const is_complete = std::ranges::none_of(of.before, [](auto r) { return r.value() < 0; });
    if (of.before.empty() || !is_complete || broken(of, of.before) != "") return;
    auto const plan = solved(solve, of);
    auto const stay = naive_fullness(solve, of, of.before);
    REQUIRE(cost(solve, plan) <= stay * (1 + 1e-9) * (1 + solve.precision));
  });
}

TEST_CASE("owned items: equal inputs give equal owners") {
  for_any_planner([](ownership_planner const& solve, random_items const& of) {
    REQUIRE(solved(solve, of) == solved(solve, of));
  });
}

TEST_CASE("owned items: what was planned moves nothing when it is planned again") {
  for_any_planner([](ownership_planner const& solve, random_items of) {
    of.constraints.same_node.clear();
    auto const plan = solve(of.items, of.topo, of.constraints);
    auto const again = solve(of.items, of.topo, of.constraints, plan.owners);
    REQUIRE(again.owners == plan.owners);
    REQUIRE(again.moved_bytes == 0);
  });
}

TEST_CASE("owned items: the scale of an amount changes nothing") {
  for_any_planner([](ownership_planner const& solve, random_items const& of) {
    auto scaled = of.items;
    for (auto& item : scaled) {
      item.step_cost *= 1024;
      item.load *= 4;
    }
    REQUIRE(solve(scaled, of.topo, of.constraints, of.before).owners == solved(solve, of).owners);
  });
}

TEST_CASE("owned items: what is near costs nothing") {
  for_any_planner([](ownership_planner const& solve, random_items const& of) {
    auto asked = of.constraints;
    asked.same_node.clear();
    auto const plan = solve(of.items, of.topo, asked);
    asked.near.clear();
    auto const without = solve(of.items, of.topo, asked);
    REQUIRE(plan.fullness <= without.fullness);
  });
}

TEST_CASE("owned items: on more than 64 ranks the same holds") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    auto of = random_items{support::dice{seed}, {.ranks = 12, .items = 2000, .even = true}};
    of.topo = topology{{.nodes = 20, .ranks = 160}};
    auto const plan = ownership_planner{}(of.items, of.topo);
    REQUIRE(plan.fullness == Approx(naive_fullness({}, of, plan.owners)));
    REQUIRE(plan.fullness <= 1.10);
    REQUIRE(ownership_planner{}(of.items, of.topo, {}, plan.owners).owners == plan.owners);
  }
}

TEST_CASE("owned items: contradictions are refused, and name the items") {
  auto const items = of_bytes({1, 1, 1, 1});
  auto const topo = topology{{.nodes = 2, .ranks = 4}};
  auto const refuses = [&](ownership_constraints const& asked, std::vector<int> const& before,
                           auto const& named) {
    auto const owners = on(before);
    REQUIRE_THROWS_AS(ownership_planner{}(items, topo, asked, owners), fssdp::argument_error);
    REQUIRE_THROWS_WITH(ownership_planner{}(items, topo, asked, owners), named);
  };
  refuses({.together = {items_of({0, 2})}, .apart = {items_of({1, 2, 0})}}, {},
          mentions("items 2 and 0") && mentions("`apart` and go together"));
  refuses({.together = {items_of({0, 1}), items_of({1, 3})}, .apart = {items_of({3, 0})}}, {},
          mentions("items 3 and 0"));
  refuses({.on_ranks = {{item_id{1}, on({0, 1})}, {item_id{1}, on({2})}}}, {},
          mentions("no rank is left for item 1;"));
  refuses(
      {.together = {items_of({1, 3})}, .on_ranks = {{item_id{1}, on({0})}, {item_id{3}, on({2})}}},
      {}, mentions("item 3, which goes together with 1"));
  refuses({.on_ranks = {{item_id{2}, on({0})}}, .same_node = items_of({2})}, {0, 0, 3, 0},
          mentions("no rank is left for item 2"));
  refuses({.on_ranks = {{item_id{1}, {}}}}, {}, mentions("no rank is left for item 1"));
  refuses(
      {.apart = {items_of({0, 1, 2})},
       .on_ranks = {{item_id{0}, on({1, 2})}, {item_id{1}, on({1, 2})}, {item_id{2}, on({2, 1})}}},
      {}, mentions("items 0, 1, 2 are apart"));
  // Three pairs on two ranks: each set for itself could be.
  refuses(
      {.apart = {items_of({0, 1}), items_of({1, 2}), items_of({0, 2})},
       .on_ranks = {{item_id{0}, on({1, 2})}, {item_id{1}, on({1, 2})}, {item_id{2}, on({2, 1})}}},
      {}, mentions("leave no rank for item"));
  auto const five = of_bytes({1, 1, 1, 1, 1});
  REQUIRE_THROWS_WITH(ownership_planner{}(five, topo, {.apart = {items_of({0, 1, 2, 3, 4})}}),
                      mentions("items 0, 1, 2, 3, 4 are apart"));
}

TEST_CASE("owned items: where largest-first fails, another solution is found") {
  // d0 is the emptiest for the large item 0; then item 1, apart from it, has no rank.
  auto const items = of_bytes({9, 1, 1});
  auto const plan = ownership_planner{.exact_items = 0}(
      items, one_node(2), {.apart = {items_of({0, 1})}, .on_ranks = {{item_id{1}, on({0})}}});
  REQUIRE(plan.owners == on({1, 0, 0}));
}

TEST_CASE("owned items: bad input is refused, and the value is named") {
  auto const items = of_bytes({1, 2});
  auto const topo = one_node(2);
  auto const solve = ownership_planner{};
  REQUIRE_THROWS_WITH(solve({}, topo), mentions("0 items"));
  REQUIRE_THROWS_WITH(solve(items, topology{}), mentions("0 ranks"));
  REQUIRE_THROWS_WITH(solve(items, topo, {}, on({1})), mentions("before has 1 owners"));
  REQUIRE_THROWS_WITH(solve(items, topo, {}, on({1, 2})), mentions("rank 2 of item 1"));
  REQUIRE_THROWS_WITH(solve(items, topo, {}, on({-2, 1})), mentions("rank -2 of item 0"));
  REQUIRE_THROWS_WITH(solve(items, topo, {.apart = {items_of({0, 7})}}),
                      mentions("item 7 in `apart`") && mentions("0 to 1"));
  REQUIRE_THROWS_WITH(solve(items, topo, {.together = {items_of({-1})}}),
                      mentions("item -1 in `together`"));
  REQUIRE_THROWS_WITH(solve(items, topo, {.on_ranks = {{item_id{1}, on({2})}}}),
                      mentions("rank 2 of item 1") && mentions("0 to 1"));
  REQUIRE_THROWS_WITH(solve(items, topo, {.same_node = items_of({1})}),
                      mentions("item 1 in `same_node` has no owner"));
  REQUIRE_THROWS_WITH(solve(items, topo, {.near = {{}}}), mentions("0 items in `near`"));
  auto const half = std::uint64_t{1} << 62U;
  REQUIRE_THROWS_WITH(solve(of_bytes({half, half}), topo),
                      mentions("bytes of items 0 to 1") && mentions("2^63"));
  REQUIRE_THROWS_WITH(ownership_planner{.price_per_byte = -1}(items, topo),
                      mentions("price_per_byte is -1"));
  REQUIRE_THROWS_WITH(ownership_planner{.weights = {.load = -0.5}}(items, topo),
                      mentions("load is -0.5"));
  REQUIRE_THROWS_WITH(ownership_planner{.precision = 1}(items, topo), mentions("precision is 1"));
  REQUIRE_THROWS_WITH(ownership_planner{.trials = -1}(items, topo), mentions("trials is -1"));
  REQUIRE_THROWS_WITH(ownership_planner{.exact_items = -1}(items, topo),
                      mentions("exact_items is -1"));
}

TEST_CASE("owned items: items that weigh nothing have owners, too") {
  auto const plan = ownership_planner{}(std::vector<owned_item>(5), one_node(3));
  REQUIRE(plan.owners.size() == 5);
  REQUIRE(plan.fullness == 0.0);
}
