// SPDX-License-Identifier: Apache-2.0
/// The portfolio is never dearer than what it is made of, and keeps its budget; so do its parts.
#include "fssdp/solver/cheapest_materialization.hpp"

#include <cstdint>
#include <optional>
#include <vector>

#include "catch.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/solver/expected_demand.hpp"
#include "fssdp/solver/largest_overlap.hpp"
#include "fssdp/solver/needs_based_materialization.hpp"
#include "fssdp/solver/refinement.hpp"
#include "support/laws.hpp"

using fssdp::cheapest_materialization;
using fssdp::estimated_cost;
using fssdp::largest_overlap;
using fssdp::layer_rates;
using fssdp::placement;
using fssdp::port_loads;
using fssdp::token_demand;
using support::random_instance;

namespace {

struct priced_instance {
  fssdp::materialization_budget budget;
  layer_rates rates;
  token_demand demand;

  priced_instance(random_instance const& of, support::dice draw)
      : budget{draw.between(0, 5), draw.between(0, 5), draw.between(0, 4)},
        rates{.forward_seconds_per_row = 1e-8 * draw.between(1, 20),
              .token_bytes = static_cast<std::size_t>(draw.between(1, 4000)),
              .expert_bytes = 1U << 20U,
              .window_seconds = 1e-4} {
    fssdp::detail::expect_demand(of.loads, of.topo, demand);
  }
  [[nodiscard]] double seconds(random_instance const& of, placement const& where) const {
    return estimated_cost{}.seconds(where, of.topo, demand, rates);
  }
};

}  // namespace

TEST_CASE("the cheapest is no dearer than its candidates, and keeps their budget") {
  support::for_random_instances(
      support::law_instances / 100 + 20,
      [seed = std::uint64_t{0}](random_instance const& of) mutable {
        auto const priced = priced_instance{of, support::dice{++seed}};
        auto const best = cheapest_materialization{
            .budget = priced.budget, .rates = priced.rates, .topology = of.topo, .trials = 20};
        auto const where = best(of.loads, of.layout);
        REQUIRE(priced.budget.allows(port_loads{where, of.layout, of.topo}));
        fssdp::check_contains(where, of.layout);
        auto const seconds = priced.seconds(of, where) * (1 - 1e-12);
        auto const fast = fssdp::needs_based_materialization{priced.budget, of.topo};
        auto const overlap = largest_overlap{priced.budget, of.topo};
        REQUIRE(seconds <= priced.seconds(of, placement{of.layout}));
        REQUIRE(seconds <= priced.seconds(of, fast(of.loads, of.layout)));
        REQUIRE(seconds <= priced.seconds(of, overlap(of.loads, of.layout)));
      });
}

TEST_CASE("a renewed placement keeps the budget, and is no dearer than needs-based ones") {
  auto kept = 0;
  support::for_random_instances(
      support::law_instances / 100 + 20,
      [&, seed = std::uint64_t{0}](random_instance const& of) mutable {
        auto draw = support::dice{++seed};
        auto const priced = priced_instance{of, draw};
        auto const solve = cheapest_materialization{
            .budget = priced.budget, .rates = priced.rates, .topology = of.topo, .trials = 20};
        auto earlier = of.loads;  // a tenth more or less of some
        for (auto& load : earlier)
          if (draw.chance(50)) load -= load / 10;
        auto const before = solve(earlier, of.layout);
        auto const where = solve(of.loads, of.layout, before);
        kept += where == before ? 1 : 0;
        REQUIRE(priced.budget.allows(port_loads{where, of.layout, of.topo}));
        fssdp::check_contains(where, of.layout);
        auto const seconds = priced.seconds(of, where) * (1 - 1e-12);
        auto const fast = fssdp::needs_based_materialization{priced.budget, of.topo};
        REQUIRE(seconds <= priced.seconds(of, before));
        REQUIRE(seconds <= priced.seconds(of, fast(of.loads, of.layout)) * (1 + solve.worth));
        auto const none = cheapest_materialization{
            .budget = {}, .rates = priced.rates, .topology = of.topo, .trials = 20};
        REQUIRE(none(of.loads, of.layout, before) == placement{of.layout});  // beyond the budget
      });
  CHECK(kept > 0);
}

TEST_CASE("loads that drift leave most placements as they are, and about as cheap as new ones") {
  auto const topo = fssdp::topology{{.nodes = 4, .ranks = 32}};
  auto const layout = fssdp::block_layout{{.experts = 64, .ranks = 32}};
  auto const solve = cheapest_materialization{
      .budget = {.experts_in = 6, .experts_out = 6, .spare_slots = 3},
      .rates = {.forward_seconds_per_row = 1e-7, .token_bytes = 1536, .expert_bytes = 1U << 20U},
      .topology = topo};
  auto draw = support::dice{7};
  auto weights = std::vector<double>{};
  for (int e = 0; e < 64; ++e) weights.push_back(1e6 / (1 + (e * 37) % 64));
  auto where = std::optional<placement>{};
  auto changes = 0;
  auto renewed_seconds = 0.0;
  auto fresh_seconds = 0.0;
  for (int i = 0; i < 40; ++i) {
    auto loads = fssdp::expert_loads{};
    for (auto& weight : weights) {
      weight *= 1 + 0.01 * draw.between(-2, 2);
      loads.push_back(static_cast<std::uint64_t>(weight));
    }
    auto demand = token_demand{};
    fssdp::detail::expect_demand(loads, topo, demand);
    auto const fresh = solve(loads, layout);
    auto const next = where.has_value() ? solve(loads, layout, *where) : fresh;
    changes += where == next ? 0 : 1;
    where = next;
    auto const seconds = [&](placement const& of) {
      return estimated_cost{}.seconds(of, topo, demand, solve.rates);
    };
    renewed_seconds += seconds(next);
    fresh_seconds += seconds(fresh);
  }
  CHECK(changes < 20);
  CHECK(renewed_seconds < 1.01 * fresh_seconds);
}

TEST_CASE("refining never makes a placement dearer, and stays within the budget") {
  support::for_random_instances(
      support::law_instances / 50 + 20,
      [seed = std::uint64_t{0}](random_instance const& of) mutable {
        auto const priced = priced_instance{of, support::dice{++seed}};
        auto const start =
            fssdp::needs_based_materialization{priced.budget, of.topo}(of.loads, of.layout);
        auto where = start;
        auto const seconds = fssdp::detail::refinement{}.improve(
            where, of.layout, of.topo, priced.demand, priced.rates, priced.budget, 30);
        REQUIRE(priced.budget.allows(port_loads{where, of.layout, of.topo}));
        REQUIRE(seconds == priced.seconds(of, where));
        REQUIRE(seconds <= priced.seconds(of, start));
      });
}

TEST_CASE("the largest overlap fits the budget, and the next one does not") {
  auto larger_fit = 0;
  auto tried = 0;
  support::for_random_instances(
      support::law_instances / 10, [&, seed = std::uint64_t{0}](random_instance const& of) mutable {
        auto draw = support::dice{++seed};
        auto const budget = fssdp::materialization_budget{draw.between(0, 5), draw.between(0, 5),
                                                          draw.between(0, 4)};
        auto const where = largest_overlap{budget, of.topo}(of.loads, of.layout);
        REQUIRE(budget.allows(port_loads{where, of.layout, of.topo}));
        for (auto k = 0; k <= of.layout.experts(); ++k) {
          auto const at = [&](int overlap) {
            return fssdp::sparse_materialization{overlap, budget.spare_slots, of.topo}(of.loads,
                                                                                       of.layout);
          };
          if (at(k) != where) continue;
          ++tried;
          if (k < of.layout.experts() && at(k + 1) != where &&
              budget.allows(port_loads{at(k + 1), of.layout, of.topo}))
            ++larger_fit;
          break;
        }
      });
  REQUIRE(tried == support::law_instances / 10);  // each is one of Algorithm 1
  REQUIRE(larger_fit == 0);
}

TEST_CASE("experts that pay are gathered beyond the window, others are not") {
  // Two nodes. Nothing is hidden; an expert is worth 2 * 1 MiB / (4 * 1 KiB) = 512 tokens of a
  // node.
  auto const topo = fssdp::topology{{.nodes = 2, .ranks = 2}};
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto const rates = layer_rates{.forward_seconds_per_row = 1e-12,
                                 .token_bytes = 1024,
                                 .expert_bytes = 1U << 20U,
                                 .window_seconds = 0};
  REQUIRE(fssdp::break_even_tokens(rates) == 512);
  auto const hidden = fssdp::hidden_budget(rates, topo, 4, 2);
  REQUIRE(hidden == fssdp::materialization_budget{0, 0, 2});
  auto const solve = [&](fssdp::expert_loads const& loads) {
    auto tokens = 0.0;
    for (auto const load : loads) tokens += static_cast<double>(load);
    return cheapest_materialization{.budget = fssdp::paying_budget(loads, rates, topo, 2),
                                    .rates = rates,
                                    .tokens = tokens,
                                    .topology = topo}(loads, layout);
  };
  REQUIRE(fssdp::paying_budget(fssdp::expert_loads{20000, 1000, 1000, 1000}, rates, topo, 2)
              .experts_in == 1);
  auto const where = solve(fssdp::expert_loads{20000, 100, 100, 100});
  REQUIRE(where.holds(fssdp::rank_id{1}, fssdp::expert_id{0}));
  REQUIRE(solve(fssdp::expert_loads{100, 100, 100, 100}) == placement{layout});
}

TEST_CASE("a placement beyond a budget is refused with the budget, the place and both numbers") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 4}};
  auto const topo = fssdp::topology{{.nodes = 2, .ranks = 4}};
  auto where = placement{layout};
  where.add(fssdp::expert_id{0}, fssdp::rank_id{3});
  where.add(fssdp::expert_id{1}, fssdp::rank_id{3});
  auto const ports = port_loads{where, layout, topo};
  auto const refuses = [&](fssdp::materialization_budget const& budget, char const* what) {
    REQUIRE_FALSE(budget.allows(ports));
    REQUIRE_THROWS_AS(fssdp::check_within(ports, budget), fssdp::argument_error);
    REQUIRE_THROWS_WITH(fssdp::check_within(ports, budget),
                        mentions(what) && mentions("expected at most 1"));
  };
  REQUIRE(fssdp::materialization_budget{2, 2, 2}.allows(ports));
  REQUIRE_NOTHROW(fssdp::check_within(ports, {2, 2, 2}));
  refuses({1, 2, 2}, "experts_in of node 1 is 2");
  refuses({2, 1, 2}, "experts_out of node 0 is 2");
  refuses({2, 2, 1}, "spare_slots of rank 3 is 2");
}

TEST_CASE("a window hides as many experts as go through a port, less the filling") {
  auto const ports =
      fssdp::port_bandwidth{.inside_bytes_per_second = 1e12, .between_bytes_per_second = 1e9};
  auto const topo = fssdp::topology{{.nodes = 2,
                                     .ranks = 4,
                                     .ports = ports,
                                     .network = fssdp::network_interface::per_node,
                                     .cost = {.between_latency_seconds = 0}}};
  auto const hidden = [&](double window) {
    auto const rates = layer_rates{.expert_bytes = 1U << 20U, .window_seconds = window};
    return fssdp::hidden_budget(rates, topo, 10, 3).experts_in;
  };
  auto const expert = 1048576e-9;  // seconds; the pipeline fills with a quarter of that
  REQUIRE(hidden(0) == 0);
  REQUIRE(hidden(1.24 * expert) == 0);
  REQUIRE(hidden(1.26 * expert) == 1);
  REQUIRE(hidden(5.26 * expert) == 5);
  REQUIRE(hidden(100) == 10);
}

TEST_CASE("more slots than pay are left alone, on one node, too") {
  auto const topo = fssdp::topology{{.nodes = 1, .ranks = 8}};
  auto const layout = fssdp::block_layout{{.experts = 16, .ranks = 8}};
  auto loads = fssdp::expert_loads{};
  for (std::uint64_t n = 1; n <= 16; ++n) loads.push_back(100'000 / n);
  auto const seconds = [&](int slots) {
    auto const rates = layer_rates{.forward_seconds_per_row = 1e-8,
                                   .token_bytes = 1,
                                   .expert_bytes = 400U << 20U,
                                   .window_seconds = 1.1e-3};
    auto const where = cheapest_materialization{.budget = {16, 16, slots},
                                                .rates = rates,
                                                .tokens = 338'000,
                                                .topology = topo}(loads, layout);
    auto demand = token_demand{};
    fssdp::detail::expect_demand(loads, topo, demand);
    auto units = 0.0;
    for (auto const part : demand.of(fssdp::node_id{0})) units += static_cast<double>(part);
    auto const gather =
        fssdp::gather_seconds(port_loads{where, layout, topo}, topo, rates.expert_bytes);
    return estimated_cost{}.seconds(where, topo, demand, rates) * 338'000 / units +
           fssdp::exposed_seconds(gather, rates);
  };
  auto const with_one = seconds(1);
  REQUIRE(with_one < 0.9 * seconds(0));
  REQUIRE(seconds(16) <= with_one * 1.000001);
  REQUIRE(seconds(1'000'000) <= with_one * 1.000001);
}

TEST_CASE("budgets for a million experts are budgets for all there are") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 64}};
  auto const loads = fssdp::expert_loads{9, 5, 3, 1};
  auto const many = fssdp::materialization_budget{1'000'000'000, 1'000'000'000, 1'000'000'000};
  auto const all = fssdp::materialization_budget{4, 4, 4};
  auto const rates =
      layer_rates{.forward_seconds_per_row = 1e-8, .token_bytes = 64, .expert_bytes = 64};
  REQUIRE(fssdp::needs_based_materialization{many}(loads, layout) ==
          fssdp::needs_based_materialization{all}(loads, layout));
  auto const solve = [&](fssdp::materialization_budget const& budget) {
    return cheapest_materialization{.budget = budget, .rates = rates, .trials = 5}(loads, layout);
  };
  REQUIRE(solve(many) == solve(all));
}

TEST_CASE("cheapest: a missing budget or missing rates is an error") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
  auto const loads = fssdp::expert_loads{1, 2};
  auto const refuses = [&](auto const& solve, char const* name, char const* expected) {
    REQUIRE_THROWS_AS(solve(loads, layout), fssdp::argument_error);
    REQUIRE_THROWS_WITH(solve(loads, layout), mentions(name) && mentions(expected));
  };
  auto const rates = layer_rates{.forward_seconds_per_row = 1e-6};
  refuses(cheapest_materialization{}, "no budget", "paying_budget");
  refuses(largest_overlap{}, "no budget", "paying_budget");
  refuses(cheapest_materialization{.rates = rates}, "no budget", ".budget = {} for no replicas");
  refuses(cheapest_materialization{.budget = {2, 2, 2}}, "0 bytes per token", ".rates");
  auto const owners = fssdp::placement{layout};
  REQUIRE(cheapest_materialization{.budget = {}}(loads, layout) == owners);
  REQUIRE(cheapest_materialization{.budget = {2, 2, 2}, .rates = rates}(loads, layout) != owners);
}

TEST_CASE("cheapest: impossible options are errors that name them") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
  auto const loads = fssdp::expert_loads{1, 2};
  auto const refuses = [&](auto const& solve, char const* name) {
    REQUIRE_THROWS_AS(solve(loads, layout), fssdp::argument_error);
    REQUIRE_THROWS_WITH(solve(loads, layout), mentions(name) && mentions("0 or more"));
  };
  refuses(cheapest_materialization{.trials = -1}, "trials is -1");
  refuses(cheapest_materialization{.tokens = -5}, "tokens -5");
  refuses(cheapest_materialization{.budget = {.experts_in = -2}}, "experts_in is -2");
  refuses(largest_overlap{.budget = {.spare_slots = -2}}, "spare_slots is -2");
}
