// SPDX-License-Identifier: Apache-2.0
/// How far ownership_planner is from proven optima.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "catch.hpp"
#include "fssdp/solver/ownership_planner.hpp"
#include "optimum/best_ownership.hpp"
#include "support/random_items.hpp"

namespace {

/// What owners cost, as the planner promises to minimize it.
[[nodiscard]] double cost(fssdp::ownership_planner const& of, fssdp::ownership_plan const& plan) {
  return plan.fullness + of.price_per_byte * static_cast<double>(plan.moved_bytes);
}

[[nodiscard]] bool weighs(support::random_items const& of) {
  return std::ranges::any_of(of.items, [](auto const& item) {
    return item.bytes > 0 || item.step_cost > 0 || item.load > 0;
  });
}

/// Ratios to proven optima; `options` from a die.
template <class Options>
[[nodiscard]] std::vector<double> ratios(std::size_t wanted, std::uint64_t first_seed,
                                         support::random_items::limits const& limits,
                                         Options options) {
  auto list = std::vector<double>{};
  auto below_bound = 0;
  auto unproven = 0;
  for (auto seed = first_seed; list.size() < wanted && seed < first_seed + 3 * wanted; ++seed) {
    auto draw = support::dice{seed};
    auto shape = limits;
    shape.even = seed % 2 == 0;
    auto const of = support::random_items{draw, shape};
    if (!weighs(of)) continue;
    auto const solve = options(draw);
    auto const best = optimum::best_ownership{of, solve}.solve(1e-4, 2);
    if (best.best > best.bound * 1.0005 + 1e-9) {
      ++unproven;
      continue;
    }
    auto const plan = solve(of.items, of.topo, of.constraints, of.before);
    if (plan.bound > best.best * 1.0001) ++below_bound;
    list.push_back(cost(solve, plan) / best.best);
  }
  auto sum = 0.0;
  for (auto const ratio : list) sum += std::log(ratio);
  std::printf(
      "ownership_planner: %zu instances, over the proven optimum: geometric mean %.4f, worst %.4f "
      "(%d not proven)\n",
      list.size(), std::exp(sum / static_cast<double>(list.size())), std::ranges::max(list),
      unproven);
  REQUIRE(below_bound == 0);
  return list;
}

constexpr auto proven = std::size_t{FSSDP_PROVEN_OPTIMA};

}  // namespace

TEST_CASE("owners of few items are within 1 % of the proven optimum") {
  auto const list = ratios(proven, 0, {.ranks = 6, .items = 12},
                           [](support::dice&) { return fssdp::ownership_planner{}; });
  REQUIRE(list.size() == proven);
  REQUIRE(std::ranges::max(list) <= 1.01);
  REQUIRE(std::ranges::min(list) >= 0.999);
}

TEST_CASE("owners of few items with a price for moves are within 1 % of the proven optimum") {
  auto const list = ratios(proven, 10'000, {.ranks = 6, .items = 12}, [](support::dice& draw) {
    return fssdp::ownership_planner{.price_per_byte = draw.between(1, 100) * 1e-10};
  });
  REQUIRE(list.size() == proven);
  REQUIRE(std::ranges::max(list) <= 1.01);
  REQUIRE(std::ranges::min(list) >= 0.999);
}

TEST_CASE("owners by steps alone are within 5 % of the proven optimum on average") {
  auto const list = ratios(proven / 4, 20'000, {.ranks = 6, .items = 14}, [](support::dice&) {
    return fssdp::ownership_planner{.exact_items = 0};
  });
  auto sum = 0.0;
  for (auto const ratio : list) sum += std::log(ratio);
  REQUIRE(sum / static_cast<double>(list.size()) <= std::log(1.05));
  REQUIRE(std::ranges::min(list) >= 0.999);
}
