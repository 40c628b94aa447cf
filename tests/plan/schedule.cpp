// SPDX-License-Identifier: Apache-2.0
/// Schedules deliver, cross between nodes as seldom as they can, and keep to the room for relays.
#include "fssdp/plan/schedule.hpp"
#include "fssdp/plan/schedule_search.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/memory_required.hpp"
#include "fssdp/element/fp8.hpp"
#include "fssdp/plan/node_aware_plan.hpp"
#include "fssdp/plan/rank_ordered.hpp"
#include "fssdp/plan/simulate.hpp"
#include "fssdp/plan/traffic.hpp"
#include "fssdp/plan/verify.hpp"
#include "support/any_topology.hpp"
#include "support/laws.hpp"
#include "support/scheduled_instance.hpp"

using fssdp::expert_id;
using fssdp::piece_id;
using fssdp::rank_id;
using fssdp::schedule_options;
using fssdp::topology;
using fssdp::transfer;
using support::for_schedules;
using support::scheduled_instance;

namespace {

/// How often others than the owner get a chunk that they are to have.
[[nodiscard]] int deliveries(fssdp::transfer_plan const& plan) {
  auto count = 0;
  for (auto const expert : fssdp::first_n<expert_id>(plan.experts()))
    for (auto const rank : fssdp::first_n<rank_id>(plan.ranks()))
      for (auto const slice : fssdp::first_n<fssdp::slice_id>(plan.slices()))
        count += plan.where().holds(rank, expert) && plan.owner({expert, slice}) != rank ? 1 : 0;
  return count;
}
[[nodiscard]] int relays(fssdp::transfer_plan const& plan) {
  auto count = 0;
  for (auto const rank : fssdp::first_n<rank_id>(plan.ranks()))
    count += static_cast<int>(plan.relayed(rank).size());
  return count;
}

/// Whether all goes straight from owners, in one round, where that is not what late binding does.
[[nodiscard]] bool straight_from_owners(fssdp::transfer_plan const& plan) {
  return plan.rounds() <= 1 &&
         std::ranges::all_of(plan.feeders(), [](int feeder) { return feeder < 0; });
}

/// What late_binding believes of a cut.
[[nodiscard]] double planned_seconds(scheduled_instance const& of, int pieces,
                                     fssdp::detail::relaying how) {
  auto demand = fssdp::detail::piece_demand{of.base, pieces, how};
  auto const times = fssdp::detail::piece_times{demand, static_cast<double>(of.chunk_bytes)};
  auto const end = fssdp::detail::late_binding{demand, times.inside, times.between}.end();
  return times.tick.seconds(end);
}

/// A plan on a topology with no latency, in which one expert of rank 0 goes to some ranks.
[[nodiscard]] fssdp::transfer_plan one_expert(topology const& topo,
                                              std::vector<int> const& holders) {
  auto const layout = support::reversed_layout{topo.ranks(), {rank_id{0}}};
  auto where = fssdp::placement{layout};
  for (auto const rank : holders) where.add(expert_id{0}, rank_id{rank});
  return make_plan(layout, where, topo);
}

constexpr auto megabyte = std::size_t{1'000'000};
constexpr auto most_bytes = std::numeric_limits<std::size_t>::max();

}  // namespace

TEST_CASE("a schedule delivers each piece to all holders, whatever the topology and the options") {
  auto relaying = 0;
  auto cut = 0;
  for_schedules(support::law_instances, [&](scheduled_instance const& of) {
    REQUIRE_NOTHROW(verify(of.plan));
    auto to_holders = 0;
    auto to_relays = 0;
    for (auto const& t : of.plan.transfers())
      ++(of.of.where.holds(t.destination, t.chunk.expert) ? to_holders : to_relays);
    REQUIRE(to_holders == of.plan.pieces() * deliveries(of.base));
    REQUIRE(to_relays == relays(of.plan));
    relaying += to_relays > 0 ? 1 : 0;
    cut += of.plan.pieces() > 1 ? 1 : 0;
  });
  REQUIRE(relaying > 0);
  REQUIRE(cut > 0);
}

TEST_CASE("a piece crosses between nodes as often as a chunk of the node-aware plan") {
  auto direct = 0;
  auto instances = 0;
  for_schedules(support::law_instances / 4, [&](scheduled_instance const& of) {
    auto const pieces = traffic(of.plan, of.topo);
    auto const chunks =
        traffic(fssdp::detail::node_aware_plan({of.of.layout, of.of.where, of.topo}), of.topo);
    ++instances;
    if (straight_from_owners(of.plan) && pieces.between_nodes != chunks.between_nodes) {
      ++direct;
      return;
    }
    REQUIRE(pieces.between_nodes == of.plan.pieces() * chunks.between_nodes);
    auto entered = std::vector<int>{};
    for (auto const count : chunks.into_node) entered.push_back(count * of.plan.pieces());
    REQUIRE(pieces.into_node == entered);
  });
  REQUIRE(direct < instances / 4);
}

TEST_CASE(
    "no schedule takes longer than chunks straight from their owners, whatever the topology") {
  auto taken = 0;
  for (std::uint64_t seed = 1; seed <= support::law_instances; ++seed) {
    CAPTURE(seed);
    auto const of = support::any_topology{seed};
    auto const direct = simulate(rank_ordered(of.base), of.chunk_bytes).seconds;
    for (auto const& options :
         {schedule_options{.least_bytes = 20'000, .effort = 2000},
          schedule_options{.least_bytes = 20'000, .effort = 0},
          schedule_options{.least_bytes = 20'000, .relay_bytes = 0, .effort = 0}}) {
      auto const plan = schedule(of.base, of.chunk_bytes, options);
      REQUIRE_NOTHROW(verify(plan));
      REQUIRE(simulate(plan, of.chunk_bytes).seconds <= direct);
      taken += plan == rank_ordered(of.base) && plan.topology().nodes() > 1 ? 1 : 0;
    }
    auto const asked = of.chunk_bytes / static_cast<std::size_t>(of.pieces) + 1;
    auto const cut = schedule(of.base, of.chunk_bytes, {.piece_bytes = asked});
    REQUIRE_NOTHROW(verify(cut));
    auto const pieces = cut.pieces();
    auto const direct_cut = of.base.realised_by(
        fssdp::detail::direct_transfers(of.base, of.base.where(), pieces), pieces);
    REQUIRE_NOTHROW(verify(direct_cut));
    REQUIRE(simulate(cut, of.chunk_bytes).seconds <=
            simulate(direct_cut, of.chunk_bytes).seconds * (1 + 1e-12));
  }
  REQUIRE(taken > support::law_instances / 4);
}

TEST_CASE("where interfaces are faster than ports inside a node, chunks go straight to all ranks") {
  auto const layout = fssdp::block_layout{{.experts = 8, .ranks = 8}};
  auto const where = fssdp::everywhere{}(layout);
  for (auto const& shared : {false, true}) {
    auto const topo = topology{{.nodes = 2,
                                .ranks = 8,
                                .ports = {12e9, shared ? 50e9 : 25e9},
                                .network = shared ? fssdp::network_interface::per_node
                                                  : fssdp::network_interface::per_rank}};
    auto const base = make_plan(layout, where, topo);
    auto const direct = simulate(rank_ordered(base), 48 * megabyte).seconds;
    REQUIRE(simulate(base, 48 * megabyte).seconds <= direct);
    REQUIRE(simulate(schedule(base, 48 * megabyte), 48 * megabyte).seconds <= direct);
  }
}

TEST_CASE("times are counted on the slowest ports, the fastest and the longest latencies") {
  auto const least = fssdp::detail::least_bandwidth;
  auto const most = fssdp::detail::most_bandwidth;
  auto const longest = fssdp::detail::most_message_seconds;
  for (auto const& ports : {fssdp::port_bandwidth{least, least}, fssdp::port_bandwidth{least, most},
                            fssdp::port_bandwidth{most, least}, fssdp::port_bandwidth{most, most}})
    for (auto const& cost :
         {fssdp::message_cost{0, 0, 0}, fssdp::message_cost{longest, 0, 0},
          fssdp::message_cost{0, longest, 0}, fssdp::message_cost{longest, longest, longest}})
      for (auto const bytes : {std::size_t{1}, megabyte, most_bytes}) {
        CAPTURE(ports.inside_bytes_per_second, ports.between_bytes_per_second, bytes);
        auto const topo = topology{{.nodes = 2, .ranks = 4, .ports = ports, .cost = cost}};
        auto const plan = schedule(one_expert(topo, {1, 2, 3}), bytes);
        REQUIRE_NOTHROW(verify(plan));
        REQUIRE(std::isfinite(simulate(plan, bytes).seconds));
        REQUIRE(plan.rounds() <= static_cast<int>(plan.transfers().size()));
      }
}

TEST_CASE("no rank exceeds its limit of relayed bytes") {
  auto limited = 0;
  auto relayed = 0;
  for_schedules(support::law_instances / 4, [&](scheduled_instance const& of) {
    // By what a rank allocates for elements of the smallest and the largest type.
    auto const kept = [&](fssdp::transfer_plan const& plan) {
      auto const slices = static_cast<std::size_t>(plan.slices());
      auto most = std::size_t{0};
      for (auto const rank : fssdp::first_n<rank_id>(of.topo.ranks())) {
        auto const narrow =
            fssdp::memory_required<fssdp::fp8_e4m3>(plan, rank, of.chunk_bytes * slices);
        auto const wide = fssdp::memory_required<double>(plan, rank, of.chunk_bytes / 8 * slices);
        most = std::max({most, narrow.gather_scratch, wide.gather_scratch});
      }
      return most;
    };
    REQUIRE(kept(of.plan) <= of.options.relay_bytes);
    auto options = of.options;
    options.relay_bytes = std::numeric_limits<std::size_t>::max();
    auto const freely = schedule(of.base, of.chunk_bytes, options);
    limited += of.plan != freely ? 1 : 0;
    auto pieces = std::size_t{0};
    for (auto const rank : fssdp::first_n<rank_id>(of.topo.ranks()))
      pieces = std::max(pieces, freely.relayed(rank).size());
    if (pieces == 0) return;
    ++relayed;
    auto const even_piece = fssdp::slice_elements(of.chunk_bytes, freely.pieces());
    for (auto const& each : {even_piece, even_piece + 256, even_piece + 2048}) {
      options.relay_bytes = pieces * each;
      REQUIRE(kept(schedule(of.base, of.chunk_bytes, options)) <= options.relay_bytes);
    }
    options.relay_bytes =
        pieces * (even_piece + 2048) + 63;  // the limit is no smaller than it says
    REQUIRE(schedule(of.base, of.chunk_bytes, options) == freely);
  });
  REQUIRE(limited > 0);
  REQUIRE(relayed > 0);
}

TEST_CASE("the same arguments give the same schedule, whatever the trees of the given plan") {
  for_schedules(support::law_instances / 10, [](scheduled_instance const& of) {
    auto const again = schedule(of.base, of.chunk_bytes, of.options);
    REQUIRE(again == of.plan);
    REQUIRE(again.hash_value() == of.plan.hash_value());
    auto const stars = make_plan(of.of.layout, of.of.where);
    auto const direct =
        of.base.realised_by({stars.transfers().begin(), stars.transfers().end()}, 1);
    REQUIRE(schedule(direct, of.chunk_bytes, of.options) == of.plan);
    REQUIRE(schedule(of.plan, of.chunk_bytes, of.options) == of.plan);
  });
}

TEST_CASE("pieces are about as large as asked") {
  for_schedules(support::law_instances / 4, [](scheduled_instance const& of) {
    if (of.options.piece_bytes == 0) {
      auto const most = std::max<std::size_t>(1, of.chunk_bytes / of.options.least_bytes);
      REQUIRE(static_cast<std::size_t>(of.plan.pieces()) <= most);
    } else {
      auto const piece = fssdp::slice_elements(of.chunk_bytes, of.plan.pieces());
      REQUIRE(piece <= of.options.piece_bytes);
      auto const fewer = of.plan.pieces() - 1;
      REQUIRE(static_cast<std::size_t>(fewer) * of.options.piece_bytes < of.chunk_bytes);
    }
  });
}

TEST_CASE("the plan takes as long as the simulation in which it was found") {
  auto played_through = 0;
  for_schedules(support::law_instances / 5, [&](scheduled_instance const& of) {
    auto options = of.options;
    for (auto const how : {fssdp::detail::relaying::allowed, fssdp::detail::relaying::none}) {
      options.relay_bytes =
          how == fssdp::detail::relaying::none ? 0 : std::numeric_limits<std::size_t>::max();
      auto const plan = schedule(of.base, of.chunk_bytes, options);
      auto const planned = planned_seconds(of, plan.pieces(), how);
      auto const played = simulate(plan, of.chunk_bytes).seconds;
      if (straight_from_owners(plan)) continue;
      ++played_through;
      auto const rounding = 2e-12 * static_cast<double>(plan.transfers().size());  // picoseconds
      REQUIRE(played <= planned + rounding);
      if (of.same_ports) REQUIRE(played >= planned - rounding);
    }
  });
  REQUIRE(played_through > support::law_instances / 5);
}

TEST_CASE(
    "fewer or more pieces than those of the coarse cut are taken if that gains and effort allows "
    "it") {
  auto fewer = 0;
  auto more = 0;
  for (std::uint64_t seed = 1; seed <= support::law_instances / 10; ++seed) {
    CAPTURE(seed);
    auto const of = scheduled_instance{seed};
    auto options = schedule_options{.least_bytes = of.chunk_bytes / 12 + 1, .effort = 1'000'000};
    auto const cuts = fssdp::detail::possible_cuts{of.topo, of.chunk_bytes, options};
    auto const planned = [&](int pieces) {
      return planned_seconds(of, pieces, fssdp::detail::relaying::allowed);
    };
    auto const best = schedule(of.base, of.chunk_bytes, options);
    auto tried = std::vector{cuts.coarse};  // those that the search cannot leave out
    auto const add_two = [&](std::vector<int> const& several) {
      for (std::size_t i = 0; i < std::min<std::size_t>(2, several.size()); ++i)
        tried.push_back(several[i]);
    };
    add_two(cuts.fewer);
    if (best.pieces() >= cuts.coarse) add_two(cuts.more);
    if (!straight_from_owners(best))
      for (auto const pieces : tried) {
        REQUIRE(planned(best.pieces()) <= fssdp::detail::least_gain * planned(pieces));
        if (pieces < best.pieces()) REQUIRE(planned(best.pieces()) < planned(pieces));
      }
    options.effort = 0;
    auto const first = schedule(of.base, of.chunk_bytes, options);
    if (!straight_from_owners(first)) REQUIRE(first.pieces() == cuts.coarse);
    auto const most = std::max<std::size_t>(1, of.chunk_bytes / options.least_bytes);
    REQUIRE(static_cast<std::size_t>(first.pieces()) <= most);
    fewer += best.pieces() < first.pieces() ? 1 : 0;
    more += best.pieces() > first.pieces() ? 1 : 0;
  }
  REQUIRE(fewer > 0);
  REQUIRE(more > 0);
}

TEST_CASE("pieces and chunks may have the largest sizes that a number can hold") {
  auto const plan = one_expert(topology{{.nodes = 2, .ranks = 4}}, {1, 2, 3});
  for (auto const piece_bytes : {megabyte, megabyte + 1, most_bytes - 1, most_bytes})
    REQUIRE(schedule(plan, megabyte, {.piece_bytes = piece_bytes}).pieces() == 1);
  REQUIRE(fssdp::detail::pieces_of(most_bytes, most_bytes) == 1);
  REQUIRE(fssdp::detail::pieces_of(most_bytes, most_bytes - 1) == 2);
  for (auto const bytes : {std::size_t{1} << 31U, std::size_t{5} << 31U, most_bytes})
    for (auto const least_bytes : {std::size_t{0}, std::size_t{1}, most_bytes}) {
      CAPTURE(bytes, least_bytes);
      auto const cuts =
          fssdp::detail::possible_cuts{plan.topology(), bytes, {.least_bytes = least_bytes}};
      if (least_bytes == most_bytes) {
        REQUIRE(cuts.coarse == 1);
        REQUIRE((cuts.fewer.empty() && cuts.more.empty()));
      } else {
        REQUIRE(cuts.coarse == 4);
        REQUIRE(cuts.fewer == std::vector{2, 1});
        REQUIRE(cuts.more == std::vector{8, 12, 16, 24, 32, 6});
      }
    }
}

TEST_CASE("an impossible schedule is refused") {
  auto const plan = one_expert(topology{{.nodes = 1, .ranks = 2}}, {});
  REQUIRE_THROWS_AS(schedule(plan, 0), fssdp::argument_error);
  REQUIRE_THROWS_WITH(schedule(plan, 0), mentions("chunk_bytes is 0; expected 1"));
  auto const tiny = schedule_options{.piece_bytes = 1};
  constexpr auto most = std::size_t{fssdp::most_pieces};
  REQUIRE(schedule(plan, most, tiny).pieces() == fssdp::most_pieces);
  for (auto const bytes : {most + 1, std::size_t{5'000'000'000}, most_bytes}) {
    CAPTURE(bytes);
    REQUIRE_THROWS_AS(schedule(plan, bytes, tiny), fssdp::argument_error);
    REQUIRE_THROWS_WITH(schedule(plan, bytes, tiny),
                        mentions("piece_bytes is 1 for") && mentions("at most 65536"));
  }
}

TEST_CASE("more transfers than can be counted are refused before they are planned") {
  auto const layout = fssdp::block_layout{{.experts = 40'000, .ranks = 2}};
  auto const plan = make_plan(layout, fssdp::everywhere{}(layout));
  auto const bytes = std::size_t{fssdp::most_pieces};
  REQUIRE_THROWS_AS(schedule(plan, bytes, {.piece_bytes = 1}), fssdp::argument_error);
  REQUIRE_THROWS_WITH(schedule(plan, bytes, {.piece_bytes = 1}),
                      mentions("piece_bytes is 1 for") && mentions("at most 2147483647"));
}

TEST_CASE("a plan without transfers gives an empty schedule") {
  auto const plan = one_expert(topology{{.nodes = 2, .ranks = 4}}, {});
  auto const nothing = schedule(plan, megabyte);
  REQUIRE(nothing.transfers().empty());
  REQUIRE(simulate(nothing, megabyte).seconds == 0);
}

TEST_CASE("one chunk for one rank is not cut") {
  auto const plan = one_expert(topology{{.nodes = 1, .ranks = 2}}, {1});
  auto const scheduled = schedule(plan, 10 * megabyte);
  REQUIRE(scheduled.pieces() == 1);
  REQUIRE(scheduled == plan);
}

TEST_CASE("a schedule worked by hand: three pieces from one rank to three others") {
  auto const free = fssdp::message_cost{0, 0, 0};
  auto const plan = one_expert(topology{{.nodes = 1, .ranks = 4, .cost = free}}, {1, 2, 3});
  auto const scheduled = schedule(plan, 3 * megabyte, {.piece_bytes = megabyte});
  auto const from = [](int round, int source, int destination, int piece, int order) {
    return transfer{round, expert_id{0}, rank_id{source}, rank_id{destination}, piece, order};
  };
  auto const by_hand = std::vector{
      from(0, 0, 1, 0, 0),  // in the first quarter of the time
      from(1, 0, 2, 1, 1),  // rank 1 is less in need
      from(1, 1, 3, 0, 2),  //
      from(2, 0, 1, 2, 3),  // third quarter
      from(1, 1, 2, 0, 4),  // in the round in which it is sent first
      from(2, 2, 3, 1, 5),  //
      from(2, 0, 2, 2, 6),  // last quarter
      from(3, 1, 3, 2, 7),  //
      from(2, 2, 1, 1, 8),
  };
  REQUIRE(std::vector(scheduled.transfers().begin(), scheduled.transfers().end()) == by_hand);
  auto const piece = 1e6 / fssdp::port_bandwidth{}.inside_bytes_per_second;
  REQUIRE(std::abs(simulate(scheduled, 3 * megabyte).seconds - 4 * piece) < 1e-12);
}

TEST_CASE("an owner sends every piece once before it sends one again") {
  auto const plan = one_expert(topology{{.nodes = 1, .ranks = 8}}, {1, 2, 3, 4, 5, 6, 7});
  for (auto const pieces : {2, 8, 24}) {
    auto const bytes = static_cast<std::size_t>(pieces) * 2 * megabyte;
    auto const scheduled = schedule(plan, bytes, {.piece_bytes = 2 * megabyte});
    REQUIRE(scheduled.pieces() == pieces);
    auto const sends = scheduled.sends(rank_id{0});
    auto first = std::set<piece_id>{};
    for (auto const& t : sends.first(static_cast<std::size_t>(pieces))) first.insert(t.what());
    REQUIRE(first.size() == static_cast<std::size_t>(pieces));
    REQUIRE(sends.size() < static_cast<std::size_t>(pieces) + 7);  // the others do the rest
  }
}

TEST_CASE("between two nodes pieces take all rails, each once") {
  auto const topo = topology{{.nodes = 2, .ranks = 8}};
  auto const plan = one_expert(topo, {4, 5, 6, 7});
  auto const scheduled = schedule(plan, 24 * megabyte, {.piece_bytes = 2 * megabyte});
  auto per_rail = std::vector<int>(4);
  auto crossed = std::set<piece_id>{};
  for (auto const& t : scheduled.transfers())
    if (!topo.same_node(t.source, t.destination)) {
      REQUIRE(t.destination.value() == t.source.value() + 4);
      ++per_rail[t.source.index()];
      REQUIRE(crossed.insert(t.what()).second);
    }
  REQUIRE(crossed.size() == 12);
  REQUIRE(per_rail == std::vector(4, 3));
  for (int rank = 1; rank < 4; ++rank) REQUIRE(scheduled.relayed(rank_id{rank}).size() == 3);
  auto const alone = schedule(plan, 24 * megabyte, {.relay_bytes = 0});
  REQUIRE(relays(alone) == 0);
  REQUIRE(simulate(alone, 24 * megabyte).seconds > 2 * simulate(scheduled, 24 * megabyte).seconds);
}
