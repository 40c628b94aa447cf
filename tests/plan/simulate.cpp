// SPDX-License-Identifier: Apache-2.0
/// Times worked by hand, and those of a simulator that goes from port to port instead.
#include "fssdp/plan/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "catch.hpp"
#include "support/laws.hpp"
#include "support/naive_simulator.hpp"
#include "support/scheduled_instance.hpp"

using fssdp::expert_id;
using fssdp::network_interface;
using fssdp::rank_id;
using fssdp::topology;
using fssdp::transfer;
using support::scheduled_instance;

namespace {

/// 1000 bytes take 1 us inside a node and 10 us between nodes, 3 us more until they have arrived,
/// 20 us between nodes, and a message costs its ports 0.5 us.
[[nodiscard]] topology topology_of(int nodes, int ranks,
                                   network_interface network = network_interface::per_rank) {
  return topology{{.nodes = nodes,
                   .ranks = ranks,
                   .ports = {1e9, 1e8},
                   .network = network,
                   .cost = {3e-6, 20e-6, 0.5e-6}}};
}

/// Expert e is owned by rank e; each receiver holds what it gets.
[[nodiscard]] fssdp::transfer_plan plan_of(topology const& topo,
                                           std::vector<transfer> const& transfers, int pieces = 1) {
  auto owners = std::vector<rank_id>{};
  for (auto const rank : fssdp::first_n<rank_id>(topo.ranks())) owners.push_back(rank);
  auto const layout = support::reversed_layout{topo.ranks(), owners};
  auto where = fssdp::placement{layout};
  for (auto const& t : transfers) where.add(t.chunk.expert, t.destination);
  return {layout, where, transfers, topo, pieces};
}
[[nodiscard]] transfer send(int order, int round, int expert, int source, int destination,
                            int piece = 0) {
  return {round, expert_id{expert}, rank_id{source}, rank_id{destination}, piece, order};
}

/// Arrivals in microseconds, in canonical order.
[[nodiscard]] std::vector<double> arrivals(fssdp::transfer_plan const& plan) {
  auto times = std::vector<double>{};
  auto const played = simulate(plan, 1000);
  auto last = 0.0;
  for (auto const& t : played.transfers) {
    times.push_back(t.arrival * 1e6);
    last = std::max(last, t.arrival);
  }
  REQUIRE(played.seconds == last);
  return times;
}
[[nodiscard]] bool same(std::vector<double> const& a, std::vector<double> const& b) {
  auto wrong = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    wrong += std::abs(a[i] - b[i]) > 1e-9 ? 1 : 0;
  return wrong == 0;
}

}  // namespace

TEST_CASE("one transfer takes what the message costs, its bytes and the latency") {
  auto const inside = plan_of(topology_of(1, 2), {send(0, 0, 0, 0, 1)});
  auto const played = simulate(inside, 1000);
  REQUIRE(same({played.transfers[0].start * 1e6, played.transfers[0].released * 1e6,
                played.transfers[0].arrival * 1e6, played.seconds * 1e6},
               {0, 1.5, 4.5, 4.5}));
  REQUIRE(same(arrivals(plan_of(topology_of(2, 2), {send(0, 0, 0, 0, 1)})), {30.5}));
  REQUIRE(simulate(plan_of(topology_of(1, 2), {}), 1000).seconds == 0);
}

TEST_CASE("two from one port, and two to one port, wait for each other, their latencies do not") {
  auto const topo = topology_of(1, 4);
  REQUIRE(same(arrivals(plan_of(topo, {send(0, 0, 0, 0, 1), send(1, 0, 0, 0, 2)})), {4.5, 6}));
  REQUIRE(same(arrivals(plan_of(topo, {send(0, 0, 0, 0, 2), send(1, 0, 1, 1, 2)})), {4.5, 6}));
  // a port sends and receives at once, and other ports do not mind
  REQUIRE(
      same(arrivals(plan_of(topo, {send(0, 0, 0, 0, 1), send(1, 0, 1, 1, 0), send(2, 0, 2, 2, 3)})),
           {4.5, 4.5, 4.5}));
}

TEST_CASE("ports serve transfers in their order, even if another one could go") {
  auto const topo = topology_of(1, 4);
  // 1 passes expert 0 on first, and its own expert waits for that
  auto const plan = plan_of(topo, {send(0, 0, 0, 0, 1), send(1, 1, 0, 1, 2), send(2, 0, 1, 1, 3)});
  REQUIRE(same(arrivals(plan), {4.5, 9, 10.5}));
}

TEST_CASE("a piece is passed on when it has arrived, and pieces follow each other") {
  auto const topo = topology_of(1, 3);
  REQUIRE(same(arrivals(plan_of(topo, {send(0, 0, 0, 0, 1), send(1, 1, 0, 1, 2)})), {4.5, 9}));
  // two pieces of 500 bytes: 1 us each
  auto const halves = plan_of(topo,
                              {send(0, 0, 0, 0, 1, 0), send(1, 1, 0, 0, 1, 1),
                               send(2, 1, 0, 1, 2, 0), send(3, 2, 0, 1, 2, 1)},
                              2);
  REQUIRE(same(arrivals(halves), {4, 5, 8, 9}));
}

TEST_CASE("interfaces of their own work side by side, a shared one does not") {
  auto const transfers = std::vector{send(0, 0, 0, 0, 2), send(1, 0, 1, 1, 3)};
  REQUIRE(same(arrivals(plan_of(topology_of(2, 4), transfers)), {30.5, 30.5}));
  auto const shared = topology_of(2, 4, network_interface::per_node);
  REQUIRE(same(arrivals(plan_of(shared, transfers)), {30.5, 41}));
  // both ways at once, and beside what moves inside the node
  auto const both = std::vector{send(0, 0, 0, 0, 2), send(1, 0, 3, 3, 1), send(2, 0, 0, 0, 1)};
  REQUIRE(same(arrivals(plan_of(shared, both)), {30.5, 30.5, 4.5}));
}

TEST_CASE(
    "of two ports the slower one sets the pace, a shared interface has that of its first rank") {
  auto const on = [](network_interface network) {
    return topology{{fssdp::node_id{0}, fssdp::node_id{0}, fssdp::node_id{1}},
                    {{1e9, 1e8}, {1e8, 1e7}, {1e9, 1e9}},
                    network,
                    {0, 0, 0}};
  };
  auto const transfers = std::vector{send(0, 0, 0, 0, 1), send(1, 0, 1, 1, 2), send(2, 0, 2, 2, 0)};
  REQUIRE(same(arrivals(plan_of(on(network_interface::per_rank), transfers)), {10, 100, 10}));
  REQUIRE(same(arrivals(plan_of(on(network_interface::per_node), transfers)), {10, 10, 10}));
}

TEST_CASE("a simulator that goes from port to port finds the same times") {
  for (std::uint64_t seed = 1; seed <= support::law_instances / 4; ++seed) {
    CAPTURE(seed);
    auto const of = scheduled_instance{seed, {.ranks = 8, .experts = 16}};
    for (auto const* plan : {&of.plan, &of.base}) {
      auto const played = simulate(*plan, of.chunk_bytes);
      auto const naive = support::naive_simulation(*plan, of.chunk_bytes);
      REQUIRE(naive.arrivals.size() == played.transfers.size());
      auto wrong = 0;
      for (std::size_t i = 0; i < naive.arrivals.size(); ++i)
        wrong += std::abs(naive.arrivals[i] - played.transfers[i].arrival) > 1e-12 ? 1 : 0;
      REQUIRE(wrong == 0);
    }
  }
}

TEST_CASE("a reduction of as many bytes takes as long: the plan backwards, to the last") {
  for (std::uint64_t seed = 1; seed <= support::law_instances / 4; ++seed) {
    CAPTURE(seed);
    auto const of = scheduled_instance{seed, {.ranks = 8, .experts = 16}};
    for (auto const* plan : {&of.plan, &of.base}) {
      auto const forwards = simulate(*plan, of.chunk_bytes).seconds;
      auto const backwards = support::naive_reduction_seconds(*plan, of.chunk_bytes);
      REQUIRE(std::abs(forwards - backwards) <= 1e-9 * forwards);
    }
  }
}
