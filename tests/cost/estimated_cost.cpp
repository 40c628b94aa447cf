// SPDX-License-Identifier: Apache-2.0
/// The estimate is the cost of balanced routing.
#include "fssdp/cost/estimated_cost.hpp"

#include <vector>

#include "catch.hpp"
#include "fssdp/routing/balanced_routing.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"
#include "support/random_counts.hpp"

using fssdp::estimated_cost;
using fssdp::token_demand;
using support::random_instance;

namespace {

constexpr auto usual_rates = fssdp::layer_rates{
    .forward_seconds_per_row = 1e-8, .token_bytes = 4096, .expert_bytes = 1, .window_seconds = 1};

/// The same ranks on the same nodes, NVLink as fast as it is or as slow as the network.
[[nodiscard]] fssdp::topology with_nvlink(fssdp::topology const& topo, double bytes_per_second) {
  auto nodes = std::vector<fssdp::node_id>{};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(topo.ranks()))
    nodes.push_back(topo.node(rank));
  return fssdp::topology{nodes, {{.inside_bytes_per_second = bytes_per_second}}, topo.network()};
}

/// The ranks of a node have equally many tokens of each expert.
[[nodiscard]] fssdp::token_counts evenly_spread(fssdp::topology const& topo, int experts,
                                                std::uint64_t seed) {
  auto draw = support::dice{seed};
  auto const width = static_cast<std::size_t>(experts);
  auto values = std::vector<std::uint64_t>(static_cast<std::size_t>(topo.ranks()) * width);
  for (auto const node : fssdp::first_n<fssdp::node_id>(topo.nodes()))
    for (std::size_t expert = 0; expert < width; ++expert) {
      auto const count = draw.between(0, draw.chance(20) ? 5000 : 50);
      for (auto const rank : topo.ranks_on(node))
        values[rank.index() * width + expert] = static_cast<std::uint64_t>(count);
    }
  return {topo.ranks(), experts, values};
}

[[nodiscard]] fssdp::layer_cost real_cost(random_instance const& of, fssdp::topology const& topo,
                                          fssdp::token_counts const& counts,
                                          fssdp::layer_rates const& rates) {
  auto const routing = fssdp::balanced_routing{counts, of.where, topo};
  return {fssdp::token_traffic{counts, routing, topo}, fssdp::port_loads{topo}, rates, topo};
}

}  // namespace

TEST_CASE(
    "where the ranks of a node have equal counts, the estimate is the cost of balanced routing") {
  auto estimate = estimated_cost{};
  auto through_nodes = 0;
  support::for_random_instances([&, seed = std::uint64_t{0}](random_instance const& of) mutable {
    auto const topo = with_nvlink(of.topo, ++seed % 2 == 0 ? 400e9 : 20e9);
    auto const counts = evenly_spread(topo, of.where.experts(), seed);
    auto const demand = token_demand{counts, topo};
    auto const real = real_cost(of, topo, counts, usual_rates);
    REQUIRE(estimate.seconds(of.where, topo, demand, usual_rates) == Approx(real.seconds()));
    auto tokens_only = usual_rates;
    tokens_only.forward_seconds_per_row = 0;
    REQUIRE(estimate.seconds(of.where, topo, demand, tokens_only) == Approx(real.token_seconds));
    for (auto const tokens : estimate.shares().into_node()) through_nodes += tokens != 0 ? 1 : 0;
  });
  REQUIRE(through_nodes > 0);
}

TEST_CASE("whatever the ranks have, compute and ports between nodes are estimated exactly") {
  auto estimate = estimated_cost{};
  support::for_random_instances([&, seed = std::uint64_t{0}](random_instance const& of) mutable {
    auto const counts = support::few_or_many_counts(of, ++seed);
    auto const demand = token_demand{counts, of.topo};
    auto compute_only = usual_rates;
    compute_only.token_bytes = 0;
    auto const topo = with_nvlink(of.topo, 1e18);
    auto const real = real_cost(of, topo, counts, usual_rates);
    REQUIRE(estimate.seconds(of.where, of.topo, demand, compute_only) ==
            Approx(real.compute_seconds));
    if (topo.nodes() > 1 && real.token_seconds > 1e-9)
      REQUIRE(estimate.seconds(of.where, topo, demand, usual_rates) == Approx(real.seconds()));
  });
}

TEST_CASE("an estimate does not influence the next one") {
  auto reused = estimated_cost{};
  support::for_random_instances([&, seed = std::uint64_t{0}](random_instance const& of) mutable {
    auto const demand = token_demand{support::few_or_many_counts(of, ++seed), of.topo};
    auto const expected = estimated_cost{}.seconds(of.where, of.topo, demand, usual_rates);
    REQUIRE(reused.seconds(of.where, of.topo, demand, usual_rates) == expected);
    REQUIRE(reused.seconds(of.where, of.topo, demand, usual_rates) == expected);
  });
}
