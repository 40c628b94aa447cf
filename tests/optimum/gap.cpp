// SPDX-License-Identifier: Apache-2.0
/// How far solvers are from the optimum: proven for small instances, from a bound for larger ones.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "catch.hpp"
#include "fssdp/solver/cheapest_materialization.hpp"
#include "fssdp/solver/needs_based_materialization.hpp"
#include "fssdp/solver/sparse_materialization.hpp"
#include "optimum/best_materialization.hpp"
#include "optimum/cost_bound.hpp"
#include "optimum/materialization_problem.hpp"

namespace {

using optimum::materialization_problem;

/// Ratios, and what is said of them.
struct gaps {
  char const* solver;
  std::vector<double> ratios = {};
  [[nodiscard]] double mean() const {
    auto sum = 0.0;
    for (auto const ratio : ratios) sum += std::log(ratio);
    return std::exp(sum / static_cast<double>(ratios.size()));
  }
  [[nodiscard]] double worst() const { return std::ranges::max(ratios); }
};

/// What each solver's placements cost, over a bound.
struct contest {
  gaps cheapest = {"cheapest_materialization"};
  gaps needs_based = {"needs_based_materialization"};
  gaps algorithm_1 = {"sparse_materialization (paper)"};

  void add(materialization_problem const& of, double bound, int trials) {
    auto const loads = of.counts.loads();
    auto const best = fssdp::cheapest_materialization{
        .budget = of.budget, .rates = of.rates, .topology = of.topo, .trials = trials};
    auto const fast = fssdp::needs_based_materialization{of.budget, of.topo};
    auto const paper =
        fssdp::sparse_materialization{of.budget.experts_in, of.budget.spare_slots, of.topo};
    cheapest.ratios.push_back(of.balanced_seconds(best(loads, of.layout)) / bound);
    needs_based.ratios.push_back(of.balanced_seconds(fast(loads, of.layout)) / bound);
    algorithm_1.ratios.push_back(of.even_seconds(paper(loads, of.layout)) / bound);
  }
  void print(char const* beside) const {
    std::printf("%zu instances, over %s:\n", cheapest.ratios.size(), beside);
    for (auto const* of : {&cheapest, &needs_based, &algorithm_1})
      std::printf("  %-32s geometric mean %.3f, worst %.3f\n", of->solver, of->mean(), of->worst());
  }
};

[[nodiscard]] optimum::problem_shape small_shape(support::dice& draw) {
  auto const nodes = draw.between(1, 4);
  auto const devices = nodes == 1   ? draw.between(4, 8)
                       : nodes == 4 ? draw.between(1, 2)
                                    : draw.between(2, 8 / nodes);
  auto const experts = draw.between(8, 16);
  return {nodes, devices, experts, draw.between(1, experts / 2), draw.between(1, 3)};
}

[[nodiscard]] optimum::problem_shape large_shape(support::dice& draw) {
  auto const nodes = draw.one_of(std::vector{1, 2, 4, 4, 8});
  auto const ranks = draw.one_of(std::vector{32, 64});
  auto const experts = draw.one_of(std::vector{64, 96, 128});
  return {nodes, ranks / nodes, experts, draw.between(experts / 8, experts / 2),
          draw.between(2, 6)};
}

}  // namespace

/// Instances whose optimum is proven.
constexpr auto wanted = std::size_t{FSSDP_PROVEN_OPTIMA};

TEST_CASE("small instances: within 3 % of the proven optimum, 10 % at worst") {
  constexpr auto most_seconds = 3;
  auto found = contest{};
  auto unproven = 0;
  for (std::uint64_t seed = 0; found.cheapest.ratios.size() < wanted && seed < 2 * wanted; ++seed) {
    auto draw = support::dice{seed};
    auto const of = optimum::make_problem(draw, small_shape(draw));
    auto const best = optimum::best_materialization{of}.solve(0.002, most_seconds);
    if (best.best > best.bound * 1.0021)
      ++unproven;
    else
      found.add(of, best.bound, 200);
  }
  found.print("the proven optimum");
  std::printf("  (CBC did not prove %d more within %d s)\n", unproven, most_seconds);
  REQUIRE(found.cheapest.ratios.size() == wanted);
  REQUIRE(found.cheapest.mean() <= 1.03);
  REQUIRE(found.cheapest.worst() <= 1.10);
  REQUIRE(std::ranges::min(found.cheapest.ratios) > 0.9999);  // a bound is a bound
  REQUIRE(std::ranges::min(found.algorithm_1.ratios) > 0.9999);
}

TEST_CASE("64 to 128 experts on 32 to 64 ranks: within 5 % of a lower bound") {
  auto found = contest{};
  for (std::uint64_t seed = 0; seed < wanted / 2; ++seed) {
    auto draw = support::dice{5000 + seed};
    auto const of = optimum::make_problem(draw, large_shape(draw));
    found.add(of, optimum::cost_bound(of), 50);
  }
  found.print("a lower bound");
  REQUIRE(found.cheapest.mean() <= 1.05);
  REQUIRE(std::ranges::min(found.cheapest.ratios) > 0.9999);
  REQUIRE(std::ranges::min(found.algorithm_1.ratios) > 0.9999);
}

TEST_CASE("the bound of large instances is below the optimum of small ones") {
  auto above = 0;
  for (std::uint64_t seed = 1000; seed < 1000 + wanted / 5; ++seed) {
    auto draw = support::dice{seed};
    auto const of = optimum::make_problem(draw, small_shape(draw));
    auto const best = optimum::best_materialization{of}.solve(0.002, 5);
    if (optimum::cost_bound(of) > best.best * 1.0001) ++above;
  }
  REQUIRE(above == 0);
}

TEST_CASE("balanced routing is within 1 % of the best routing of placements, on average") {
  auto sum = 0.0;
  auto worst = 0.0;
  constexpr auto instances = 100U;
  for (std::uint64_t seed = 0; seed < instances; ++seed) {
    auto draw = support::dice{seed};
    auto const of = optimum::make_problem(draw, small_shape(draw));
    auto const where =
        fssdp::needs_based_materialization{of.budget, of.topo}(of.counts.loads(), of.layout);
    auto best = optimum::best_materialization{of};
    best.fix(where);
    auto const ratio = of.balanced_seconds(where) / best.solve(1e-4, 5).best;
    sum += std::log(ratio);
    worst = std::max(worst, ratio);
  }
  auto const mean = std::exp(sum / instances);
  std::printf("balanced_routing over linear programming: geometric mean %.4f, worst %.3f\n", mean,
              worst);
  REQUIRE(mean <= 1.01);
}
