// SPDX-License-Identifier: Apache-2.0
/// The cost model of an iteration: cases worked by hand, and lower bounds of all plans.
#include "fssdp/cost/layer_cost.hpp"

#include <vector>

#include "catch.hpp"
#include "fssdp/plan/lower_bound.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/routing/even_routing.hpp"
#include "support/dice.hpp"
#include "support/golden_dispatch.hpp"
#include "support/laws.hpp"

using fssdp::gathers;
using fssdp::layer_cost;
using fssdp::node_id;
using fssdp::port_loads;
using fssdp::topology;

namespace {

constexpr auto slow_rates = fssdp::layer_rates{
    .forward_seconds_per_row = 2, .token_bytes = 5, .expert_bytes = 40, .window_seconds = 3};

/// Ports of 100 and 10 bytes per second, no latency.
[[nodiscard]] topology slow_topology(int nodes, int ranks, fssdp::network_interface network = {},
                                     fssdp::port_bandwidth ports = {100, 10}) {
  return topology{{.nodes = nodes,
                   .ranks = ranks,
                   .ports = ports,
                   .network = network,
                   .cost = {.inside_latency_seconds = 0, .between_latency_seconds = 0}}};
}

[[nodiscard]] layer_cost golden_cost(topology const& topo, gathers often = gathers::once) {
  auto const of = support::golden_dispatch{};
  return {fssdp::token_traffic{of.counts, fssdp::even_routing{of.where, topo}, topo},
          port_loads{of.where, of.layout, topo}, slow_rates, topo, often};
}

/// The ports of `nodes` nodes of one rank each, one of which takes in an expert.
[[nodiscard]] port_loads one_crossing(int nodes) {
  auto ports = port_loads{slow_topology(nodes, nodes)};
  ports.into_node[0] = ports.out_of_node[1] = ports.into_rank[0] = ports.between_nodes = 1;
  return ports;
}

/// The same ranks on the same nodes, with other ports and without latency.
[[nodiscard]] topology with_ports(topology const& topo, std::uint64_t seed) {
  auto draw = support::dice{seed};
  auto nodes = std::vector<node_id>{};
  auto ports = std::vector<fssdp::port_bandwidth>{};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(topo.ranks())) {
    nodes.push_back(topo.node(rank));
    ports.push_back({1e9 * draw.between(1, 8), 1e9 * draw.between(1, 8)});
  }
  return topology{nodes, ports, topo.network(), {0, 0, 0}};
}

}  // namespace

TEST_CASE("G5 costs what its fullest device and its busiest ports do") {
  auto const cost = golden_cost(slow_topology(2, 4));
  REQUIRE(cost.compute_seconds == Approx(3 * 21 * 2));
  REQUIRE(cost.token_seconds == Approx(4 * 4 * 5 / 20.0));            // 4 between nodes
  REQUIRE(cost.gather_seconds == Approx(2 * 40 / 20.0 + 40 / 10.0));  // 2 into node 1, and one hop
  REQUIRE(cost.exposed_seconds == Approx((8 - 3) + (8 - 6)));
  REQUIRE(cost.seconds() == Approx(126 + 4 + 7));
}

TEST_CASE("experts that are gathered again for the backward pass share its window") {
  auto const cost = golden_cost(slow_topology(2, 4), gathers::twice);
  REQUIRE(cost.gather_seconds == Approx(8));
  REQUIRE(cost.exposed_seconds == Approx((8 - 3) + (16 - 6)));
  REQUIRE(fssdp::exposed_seconds(3, slow_rates) == 0);
  REQUIRE(fssdp::exposed_seconds(4, slow_rates) == Approx(1));
  REQUIRE(fssdp::exposed_seconds(4, slow_rates, gathers::twice) == Approx(1 + 2));
  REQUIRE(fssdp::exposed_seconds(0, slow_rates, gathers::twice) == 0);
}

TEST_CASE("nodes with one interface have half the network") {
  auto const cost = golden_cost(slow_topology(2, 4, fssdp::network_interface::per_node));
  REQUIRE(cost.token_seconds == Approx(4 * 4 * 5 / 10.0));
  REQUIRE(cost.gather_seconds == Approx(2 * 40 / 10.0 + 40 / 10.0));
}

TEST_CASE("where NVLink is slow, it is the busiest port") {
  auto const cost = golden_cost(
      slow_topology(2, 4, {}, {.inside_bytes_per_second = 10, .between_bytes_per_second = 1000}));
  REQUIRE(cost.token_seconds == Approx(4 * 11 * 5 / 10.0));  // into device 2
}

TEST_CASE("on one node a rank takes in what it gathers through its own port") {
  auto const topo = slow_topology(1, 4);
  auto ports = port_loads{topo};
  REQUIRE(gather_seconds(ports, topo, 40) == 0);
  ports.into_rank[2] = 3;
  REQUIRE(gather_seconds(ports, topo, 40) == Approx(3 * 40 / 100.0 + 40 / 100.0));
  REQUIRE(gather_seconds(ports, topo, 40, 10) == Approx(3 * 40 / 100.0 + 10 / 100.0));
}

TEST_CASE("between nodes a rank takes in experts through its own interface too") {
  auto const topo = slow_topology(2, 4);
  auto ports = port_loads{topo};
  ports.into_rank[2] = 11;
  REQUIRE(gather_seconds(ports, topo, 40, 0) == Approx(11 * 40 / 110.0));
}

TEST_CASE("a pipeline fills in one hop for each doubling of the nodes") {
  auto const hops = [](int nodes) {
    auto const seconds = gather_seconds(one_crossing(nodes), slow_topology(nodes, nodes), 40, 10);
    return seconds - 40 / 10.0;  // a hop takes 10 bytes / 10 bytes per second
  };
  REQUIRE(hops(2) == Approx(1));
  REQUIRE(hops(3) == Approx(2));
  REQUIRE(hops(4) == Approx(2));
  REQUIRE(hops(5) == Approx(3));
  REQUIRE(hops(8) == Approx(3));
  auto const late = topology{
      {.nodes = 4, .ranks = 4, .ports = {100, 10}, .cost = {.between_latency_seconds = 0.5}}};
  REQUIRE(gather_seconds(one_crossing(4), late, 40, 10) == Approx(4 + 2 * (1 + 0.5)));
}

TEST_CASE("without filling, a gather takes the time of the busiest port, which no plan can beat") {
  auto equal = 0;
  support::for_random_instances(
      support::law_instances,
      [&, seed = std::uint64_t{0}](support::random_instance const& of) mutable {
        auto const topo = with_ports(of.topo, ++seed);
        auto const plan = make_plan(of.layout, of.where, topo);
        auto const bound = fssdp::lower_bound(plan, 1000);
        auto const ports = port_loads{of.where, of.layout, topo};
        auto const seconds = gather_seconds(ports, topo, 1000, 0);
        REQUIRE(seconds <= bound.seconds * (1 + 1e-12));
        REQUIRE(seconds <= gather_seconds(ports, topo, 1000));
        for (auto const* same : {"node in", "node out", "device in"})
          if (bound.resource.starts_with(same)) {
            REQUIRE(seconds == Approx(bound.seconds));
            ++equal;
          }
      },
      {.slices = 1});
  REQUIRE(equal > support::law_instances / 10);
}

TEST_CASE("ports and traffic of another topology are refused") {
  auto const of = support::golden_dispatch{};
  auto const topo = slow_topology(2, 4);
  auto const traffic = fssdp::token_traffic{of.counts, fssdp::even_routing{of.where}, topo};
  auto const ports = port_loads{topo};
  auto const cost = [&](topology const& other) {
    return layer_cost{traffic, port_loads{other}, slow_rates, other};
  };
  REQUIRE_NOTHROW(cost(topo));
  REQUIRE_THROWS_AS(cost(slow_topology(3, 4)), fssdp::argument_error);
  REQUIRE_THROWS_WITH(cost(slow_topology(3, 4)), mentions("layer_cost: traffic of 2 nodes and 4") &&
                                                     mentions("the topology has 3 and 4"));
  REQUIRE_THROWS_AS(cost(slow_topology(2, 5)), fssdp::argument_error);
  REQUIRE_THROWS_WITH(
      gather_seconds(ports, slow_topology(2, 5), 40),
      mentions("gather_seconds: ports of 2 nodes and 4") && mentions("has 2 and 5"));
}
