// SPDX-License-Identifier: Apache-2.0
/// Bounds worked by hand, and no plan beats them.
#include "fssdp/plan/lower_bound.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "fssdp/plan/rank_ordered.hpp"
#include "fssdp/plan/simulate.hpp"
#include "fssdp/plan/verify.hpp"
#include "support/any_topology.hpp"
#include "support/fluid_egress.hpp"
#include "support/laws.hpp"
#include "support/scheduled_instance.hpp"

using fssdp::expert_id;
using fssdp::network_interface;
using fssdp::rank_id;
using fssdp::topology;
using support::for_schedules;
using support::scheduled_instance;

namespace {

constexpr auto free_of_charge = fssdp::message_cost{0, 0, 0};

/// 1000 bytes take 10 s inside a node, 100 s between nodes.
[[nodiscard]] topology slow_topology(int nodes, int ranks,
                                     network_interface network = network_interface::per_rank,
                                     fssdp::message_cost const& cost = free_of_charge) {
  return topology{
      {.nodes = nodes, .ranks = ranks, .ports = {100, 10}, .network = network, .cost = cost}};
}

/// Expert e is owned by owners[e] and held by holders[e] as well.
[[nodiscard]] fssdp::transfer_plan plan_of(topology const& topo, std::vector<int> const& owners,
                                           std::vector<std::vector<int>> const& holders) {
  auto owner_ranks = std::vector<rank_id>{};
  for (auto const owner : owners) owner_ranks.emplace_back(owner);
  auto const layout = support::reversed_layout{topo.ranks(), owner_ranks};
  auto where = fssdp::placement{layout};
  for (std::size_t e = 0; e < holders.size(); ++e)
    for (auto const rank : holders[e]) where.add(expert_id{e}, rank_id{rank});
  return make_plan(layout, where, topo);
}

struct expected_bound {
  double seconds;
  std::string resource;
};
void check(fssdp::transfer_plan const& plan, expected_bound const& expected) {
  auto const bound = lower_bound(plan, 1000);
  REQUIRE(bound.resource == expected.resource);
  REQUIRE(bound.seconds == Approx(expected.seconds));
  REQUIRE(bound.tight_seconds >= bound.seconds);
}

/// No piece of such a schedule is smaller.
[[nodiscard]] std::size_t least_piece(scheduled_instance const& of) {
  if (of.options.piece_bytes == 0) return of.options.least_bytes;
  return std::min(of.options.piece_bytes, of.chunk_bytes) / 2 + 1;
}

}  // namespace

TEST_CASE("each resource binds where it should") {
  auto const shared = network_interface::per_node;
  check(plan_of(slow_topology(1, 3), {0, 1}, {{2}, {2}}), {20, "device in 2"});
  check(plan_of(slow_topology(1, 4), {0, 0}, {{1}, {2}}), {20, "device out 0"});
  check(plan_of(slow_topology(3, 3, shared), {0, 1}, {{2}, {2}}), {200, "node in 2"});
  check(plan_of(slow_topology(3, 3, shared), {0, 0}, {{1}, {2}}), {200, "node out 0"});
  check(plan_of(slow_topology(3, 6), {0, 2}, {{4, 5}, {4, 5}}), {100, "node in 2"});  // two rails
  check(plan_of(slow_topology(2, 4, shared), {0, 1}, {{1}, {0}}), {2000.0 / 210, "NVLink 0"});
}

TEST_CASE("with several nodes a rank has two ports") {
  auto const eleven = std::vector<std::vector<int>>(11, {0});
  check(plan_of(slow_topology(1, 2), std::vector(11, 1), eleven), {110, "device in 0"});
  check(plan_of(slow_topology(2, 4), std::vector(11, 1), eleven), {100, "device in 0"});
}

TEST_CASE("nothing to move has no bound and nothing that binds") {
  auto const bound = lower_bound(plan_of(slow_topology(2, 4), {0, 3}, {{}, {}}), 1000);
  REQUIRE(bound.seconds == 0);
  REQUIRE(bound.tight_seconds == 0);
  REQUIRE(bound.resource.empty());
}

TEST_CASE("G6: the busiest node gets two chunks") {
  auto const topo = slow_topology(4, 8, network_interface::per_node);
  check(plan_of(topo, {0, 4}, {{2, 3, 4, 7}, {0, 1, 6}}), {200, "node in 3"});
}

TEST_CASE("the tight bound of one chunk for one rank is what it takes") {
  auto const cost = fssdp::message_cost{3, 20, 0.5};
  auto const inside = plan_of(slow_topology(1, 2, network_interface::per_rank, cost), {0}, {{1}});
  REQUIRE(lower_bound(inside, 1000).tight_seconds == Approx(13.5));
  REQUIRE(simulate(inside, 1000).seconds == Approx(13.5));
  auto const across = plan_of(slow_topology(2, 2, network_interface::per_rank, cost), {0}, {{1}});
  REQUIRE(lower_bound(across, 1000).tight_seconds == Approx(120.5));
  REQUIRE(simulate(across, 1000).seconds == Approx(120.5));
}

TEST_CASE("the tight bound of a broadcast: filling, emptying, and the best number of pieces") {
  auto const cost = fssdp::message_cost{4, 0, 1};
  auto const plan =
      plan_of(slow_topology(1, 4, network_interface::per_rank, cost), {0}, {{1, 2, 3}});
  // one piece: 11 s at the ports. Rank 1 has it at 15, rank 2 at 26, both ahead of a third copy
  // of the owner, which ends at 33 and arrives at 37; rank 1 passes it on from 15 on: 30.
  REQUIRE(lower_bound(plan, 1000, 1000).tight_seconds == Approx(30));
  // two pieces of 6 s: the owner has sent both at 12, the last arrives at 16, at two others by 22
  // (the owner's second copy) and 26 (the first receiver's).
  REQUIRE(lower_bound(plan, 1000, 500).tight_seconds == Approx(26));
  REQUIRE(lower_bound(plan, 1000, 1).tight_seconds <= lower_bound(plan, 1000, 500).tight_seconds);
}

TEST_CASE("the tight bound of a node that fills: a rank without pieces cannot pass any on") {
  auto const cost = fssdp::message_cost{4, 0, 1};
  auto const topo = slow_topology(1, 8, network_interface::per_rank, cost);
  auto const plan = plan_of(topo, {0, 0}, {{1, 2, 3, 4, 5, 6, 7}, {1}});
  // of 7 ports that receive for 11 s, the first ones begin at 0, 11, 15, 22, 26, 26 and 30: at 37
  // seven chunks have arrived (4 s later), at 41 ten; all in all there are eight
  REQUIRE(lower_bound(plan, 1000, 1000).tight_seconds == Approx(41));
}

TEST_CASE("the tight bound between nodes: the piece that enters last must reach all ranks there") {
  auto const cost = fssdp::message_cost{3, 20, 0.5};
  auto const shared = slow_topology(2, 4, network_interface::per_node, cost);
  auto const one = plan_of(shared, {0}, {{2, 3}});
  REQUIRE(lower_bound(one, 1000, 1000).tight_seconds == Approx(120.5 + 13.5));
  REQUIRE(simulate(one, 1000).seconds == Approx(120.5 + 13.5));
  // four pieces of 25.5 s on the way, 2.5 s + 0.5 s + 3 s inside
  REQUIRE(lower_bound(one, 1000, 250).tight_seconds == Approx(4 * 25.5 + 20 + 6));
  REQUIRE(simulate(schedule(one, 1000, {.piece_bytes = 250}), 1000).seconds ==
          Approx(4 * 25.5 + 20 + 6));
  // two pieces one after the other from two nodes, the last of them to both ranks
  auto const three = slow_topology(3, 6, network_interface::per_node, cost);
  auto const two = plan_of(three, {0, 2}, {{4, 5}, {4, 5}});
  REQUIRE(lower_bound(two, 1000, 1000).tight_seconds == Approx(2 * 100.5 + 20 + 13.5));
  REQUIRE(simulate(two, 1000).seconds == Approx(2 * 100.5 + 20 + 13.5));
  // two rails: the second has its pieces from the owner 6 s later; it sends two, as the first does
  auto const rails = slow_topology(2, 4, network_interface::per_rank, cost);
  auto const both = plan_of(rails, {0}, {{2, 3}});
  auto const bound = lower_bound(both, 1000, 250).tight_seconds;
  REQUIRE(bound > 2 * 25.5 + 20);
  REQUIRE(bound <= 6 + 2 * 25.5 + 20 + 6);
  REQUIRE(simulate(schedule(both, 1000, {.piece_bytes = 250}), 1000).seconds ==
          Approx(6 + 2 * 25.5 + 20 + 6));
}

TEST_CASE("no plan takes less than the bounds, scheduled or of whole chunks") {
  auto tighter = 0;
  for_schedules(support::law_instances, [&](scheduled_instance const& of) {
    auto const bound = lower_bound(of.base, of.chunk_bytes, least_piece(of));
    REQUIRE(bound.tight_seconds >= bound.seconds);
    REQUIRE(bound.resource.empty() == of.base.transfers().empty());
    tighter += bound.tight_seconds > bound.seconds ? 1 : 0;
    for (auto const* plan : {&of.plan, &of.base})
      REQUIRE(simulate(*plan, of.chunk_bytes).seconds >= bound.tight_seconds * (1 - 1e-6));
  });
  REQUIRE(tighter > 0);
}

namespace {

/// What no plan in so many pieces beats, as one of a range of counts too.
[[nodiscard]] double bound_in_pieces(support::any_topology const& of, int pieces, int fewer) {
  auto const volume = fssdp::detail::gather_volume{of.base};
  return fssdp::detail::pipeline_bound{of.topo,
                                       volume,
                                       static_cast<double>(of.chunk_bytes),
                                       {std::max(1, pieces - fewer), pieces + fewer}}
      .seconds();
}

}  // namespace

TEST_CASE("no plan takes less than the bounds, whatever its trees and the topology") {
  auto binding = 0;
  for (std::uint64_t seed = 1; seed <= support::law_instances; ++seed) {
    CAPTURE(seed);
    auto const of = support::any_topology{seed};
    auto const bytes = of.chunk_bytes;
    auto const least_bytes = std::max<std::size_t>(1, bytes / 40);  // few numbers to look at
    auto const bound = lower_bound(of.base, bytes, least_bytes);
    REQUIRE(std::isfinite(bound.tight_seconds));
    REQUIRE(bound.tight_seconds >= bound.seconds);
    auto const asked = bytes / static_cast<std::size_t>(of.pieces) + 1;
    for (auto const& plan : {of.base, of.trees, rank_ordered(of.base),
                             schedule(of.base, bytes, {.least_bytes = least_bytes, .effort = 0}),
                             schedule(of.base, bytes, {.piece_bytes = asked})}) {
      CAPTURE(plan.pieces(), plan.transfers().size());
      auto const seconds = simulate(plan, bytes).seconds * (1 + 1e-6);
      REQUIRE(seconds >= bound.seconds);
      REQUIRE(seconds >= bound_in_pieces(of, plan.pieces(), 0));
      REQUIRE(seconds >= bound_in_pieces(of, plan.pieces(), 2));
      auto const most = std::max<std::size_t>(1, bytes / least_bytes);
      if (static_cast<std::size_t>(plan.pieces()) <= most) REQUIRE(seconds >= bound.tight_seconds);
      binding += seconds < bound.tight_seconds * 1.1 && bound.seconds > 0 ? 1 : 0;
    }
  }
  REQUIRE(binding > support::law_instances / 4);
}

TEST_CASE("a chunk may go straight to each rank of a node, where interfaces are fast") {
  auto const ports = fssdp::port_bandwidth{100, 1000};
  auto const topo = topology{{.nodes = 2, .ranks = 4, .ports = ports, .cost = free_of_charge}};
  auto const plan = rank_ordered(plan_of(topo, {0}, {{2, 3}}));
  REQUIRE(simulate(plan, 1000).seconds == Approx(2));
  REQUIRE(lower_bound(plan, 1000, 1000).tight_seconds <= 2);
}

TEST_CASE("a chunk may leave its node and come back, where interfaces are fast") {
  auto const ports = fssdp::port_bandwidth{100, 1000};
  auto const topo = topology{{.nodes = 2, .ranks = 3, .ports = ports, .cost = free_of_charge}};
  auto const inside = plan_of(topo, {0}, {{1}});
  auto const chunk = fssdp::chunk_id{expert_id{0}};
  auto const plan = inside.realised_by(
      {{0, chunk, rank_id{0}, rank_id{2}}, {1, chunk, rank_id{2}, rank_id{1}}}, 1);
  REQUIRE_NOTHROW(verify(plan));
  REQUIRE(simulate(plan, 1000).seconds == Approx(2));
  auto const bound = lower_bound(plan, 1000, 1000);
  REQUIRE(bound.seconds == Approx(1000.0 / 1100));
  REQUIRE(bound.tight_seconds == Approx(2));
}

TEST_CASE("the bounds of huge chunks on the slowest ports are found at once") {
  auto const topo = topology{{.nodes = 2,
                              .ranks = 4,
                              .ports = {fssdp::detail::least_bandwidth, 1.0},
                              .cost = {fssdp::detail::most_message_seconds, 1, 1}}};
  auto const plan = plan_of(topo, {0, 2}, {{1, 2, 3}, {3}});
  for (auto const bytes : {std::size_t{1} << 40U, std::numeric_limits<std::size_t>::max()})
    for (auto const least_bytes : {std::size_t{0}, std::size_t{1} << 18U}) {
      auto const bound = lower_bound(plan, bytes, least_bytes);
      REQUIRE(std::isfinite(bound.tight_seconds));
      REQUIRE(bound.tight_seconds >= bound.seconds);
      REQUIRE(bound.seconds >= static_cast<double>(bytes));  // a chunk through an interface
    }
}

TEST_CASE("the bound of a range of counts is near the least of theirs, and not above") {
  auto const cost = fssdp::message_cost{4e-6, 20e-6, 1e-6};
  auto const topo = topology{{.nodes = 2, .ranks = 8, .cost = cost}};
  auto const plan = plan_of(topo, {0, 5}, {{1, 2, 3, 4, 5, 6, 7}, {1, 2, 6}});
  auto const volume = fssdp::detail::gather_volume{plan};
  for (auto const bytes : {1e7, 1e9})
    for (auto const fewest : {1, 5, 40, 320}) {
      auto const most = fewest + fewest / 16;
      auto least = std::numeric_limits<double>::infinity();
      for (int count = fewest; count <= most; ++count)
        least = std::min(
            least, fssdp::detail::pipeline_bound{topo, volume, bytes, {count, count}}.seconds());
      auto const range =
          fssdp::detail::pipeline_bound{topo, volume, bytes, {fewest, most}}.seconds();
      REQUIRE(range <= least);
      REQUIRE(range >= least * (fewest < 320 ? 0.5 : 0.9));
    }
}

TEST_CASE("the bound is that of the placement, whatever the plan") {
  for_schedules(support::law_instances / 10, [](scheduled_instance const& of) {
    auto const a = lower_bound(of.base, of.chunk_bytes, least_piece(of));
    auto const b = lower_bound(of.plan, of.chunk_bytes, least_piece(of));
    REQUIRE(a.seconds == b.seconds);
    REQUIRE(a.tight_seconds == b.tight_seconds);
    REQUIRE(a.resource == b.resource);
  });
}

TEST_CASE("a flow finds the set of ranks that has the most to send") {
  auto limits = support::size_limits{.ranks = 8, .nodes = 1, .experts = 12};
  for_schedules(
      support::law_instances / 20,
      [](scheduled_instance const& of) {
        auto const fluid = support::fluid_egress{of.base, static_cast<double>(of.chunk_bytes)};
        REQUIRE(fluid.seconds() == Approx(fluid.seconds_of_all_sets()).epsilon(1e-5));
      },
      limits);
}

TEST_CASE("without relays no schedule sends faster than a fluid, and no fluid beats the bound") {
  auto limits = support::size_limits{.ranks = 8, .nodes = 3, .experts = 12};
  for_schedules(
      support::law_instances / 10,
      [&](scheduled_instance const& of) {
        auto const fluid =
            support::fluid_egress{of.base, static_cast<double>(of.chunk_bytes)}.seconds();
        auto options = of.options;
        options.relay_bytes = 0;
        auto const plan = schedule(of.base, of.chunk_bytes, options);
        REQUIRE(simulate(plan, of.chunk_bytes).seconds >= fluid * (1 - 1e-6));
        auto const bound = lower_bound(of.base, of.chunk_bytes);
        auto const of_ports_that_send = bound.resource.starts_with("device out") ||
                                        (of.topo.nodes() == 1 && bound.resource[0] == 'N');
        if (of_ports_that_send) REQUIRE(fluid >= bound.seconds * (1 - 1e-6));
      },
      limits);
}

TEST_CASE("three ranks that send to each other and to others have more to send than each alone") {
  auto const plan =
      plan_of(slow_topology(1, 8), {0, 1, 2, 0, 1, 2}, {{1, 2}, {0, 2}, {0, 1}, {3}, {4}, {5}});
  check(plan, {20, "device in 0"});  // two chunks in, and two that leave
  REQUIRE(support::fluid_egress{plan, 1000}.seconds() == Approx(30));
  REQUIRE(simulate(schedule(plan, 1000, {.least_bytes = 10}), 1000).seconds >= 30);
}
