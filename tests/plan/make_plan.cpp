// SPDX-License-Identifier: Apache-2.0
/// What every plan obeys, on random instances.
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/node_aware_plan.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "catch.hpp"
#include "fssdp/plan/rank_ordered.hpp"
#include "fssdp/plan/simulate.hpp"
#include "fssdp/plan/traffic.hpp"
#include "fssdp/plan/verify.hpp"
#include "support/any_topology.hpp"
#include "support/laws.hpp"

using fssdp::expert_id;
using fssdp::make_plan;
using fssdp::node_id;
using fssdp::rank_id;
using support::random_instance;

namespace {

using crossing = std::pair<fssdp::chunk_id, node_id>;

/// How often a chunk has to get to a holder of its expert that does not own it.
[[nodiscard]] std::size_t deliveries(random_instance const& of) {
  auto sum = std::size_t{0};
  for (auto const chunk : fssdp::all_chunks(of.layout))
    for (auto const rank : of.where.holders(chunk.expert))
      sum += rank != of.layout.owner(chunk) ? 1 : 0;
  return sum;
}

/// For every chunk the nodes other than its owner's that hold its expert.
[[nodiscard]] std::set<crossing> foreign_nodes(random_instance const& of) {
  auto pairs = std::set<crossing>{};
  for (auto const chunk : fssdp::all_chunks(of.layout))
    for (auto const rank : of.where.holders(chunk.expert))
      if (!of.topo.same_node(rank, of.layout.owner(chunk)))
        pairs.emplace(chunk, of.topo.node(rank));
  return pairs;
}

}  // namespace

TEST_CASE("every plan delivers what its placement promises, one transfer per chunk and holder") {
  support::for_random_instances([](random_instance const& of) {
    auto const direct = make_plan(of.layout, of.where);
    auto const aware = make_plan(of.layout, of.where, of.topo);
    REQUIRE_NOTHROW(verify(direct));
    REQUIRE_NOTHROW(verify(aware));
    REQUIRE(direct.transfers().size() == deliveries(of));
    REQUIRE(aware.transfers().size() == deliveries(of));
    REQUIRE(direct.rounds() == (deliveries(of) == 0 ? 0 : 1));
    REQUIRE(aware.rounds() <= of.topo.nodes());
    REQUIRE(direct.where() == of.where);
  });
}

TEST_CASE("a direct plan sends from owners only") {
  support::for_random_instances([](random_instance const& of) {
    auto const plan = make_plan(of.layout, of.where);
    auto from_others = 0;
    for (auto const& t : plan.transfers()) from_others += t.source != plan.owner(t.chunk) ? 1 : 0;
    REQUIRE(from_others == 0);
  });
}

TEST_CASE("node-aware: a chunk enters each remote node that holds its expert once, and no other") {
  support::for_random_instances([](random_instance const& of) {
    auto const plan = fssdp::detail::node_aware_plan({of.layout, of.where, of.topo});
    auto entered = std::set<crossing>{};
    auto sent_by = std::map<crossing, int>{};  // times it leaves
    auto crossings = std::size_t{0};
    for (auto const& t : plan.transfers()) {
      if (of.topo.same_node(t.source, t.destination)) continue;
      ++crossings;
      entered.emplace(t.chunk, of.topo.node(t.destination));
      ++sent_by[{t.chunk, of.topo.node(t.source)}];
    }
    auto const wanted = foreign_nodes(of);
    REQUIRE(entered == wanted);
    REQUIRE(crossings == wanted.size());
    auto sent_twice = 0;
    for (auto const& [place, times] : sent_by) sent_twice += times > 1 ? 1 : 0;
    REQUIRE(sent_twice == 0);
    REQUIRE(traffic(plan, of.topo).between_nodes == static_cast<int>(wanted.size()));
    REQUIRE(crossings <= static_cast<std::size_t>(
                             traffic(make_plan(of.layout, of.where), of.topo).between_nodes));
  });
}

TEST_CASE("a plan is node-aware unless direct transfers are faster: seldom where links are fast") {
  auto direct = 0;
  auto aware = 0;
  support::for_random_instances([&](random_instance const& of) {
    auto const plan = make_plan(of.layout, of.where, of.topo);
    auto const chains = fssdp::detail::node_aware_plan({of.layout, of.where, of.topo});
    auto const straight = rank_ordered(plan);
    REQUIRE((plan == chains || plan == straight));
    if (chains == straight) return;
    ++(plan == straight ? direct : aware);
  });
  REQUIRE(aware > 10 * direct);
}

TEST_CASE("no plan of chunks of 4 MB or more takes longer than the direct plan") {
  auto gained = 0;
  for (std::uint64_t seed = 1; seed <= support::law_instances; ++seed) {
    CAPTURE(seed);
    auto const of = support::any_topology{seed};
    REQUIRE_NOTHROW(verify(of.base));
    auto const direct = rank_ordered(of.base);
    for (auto const times : {1, 3, 12, 1'000'000}) {
      auto const bytes = fssdp::least_planned_bytes * static_cast<std::size_t>(times);
      auto const seconds = simulate(of.base, bytes).seconds;
      REQUIRE(seconds <= simulate(direct, bytes).seconds * (1 + 1e-9));
      gained += seconds < simulate(direct, bytes).seconds ? 1 : 0;
    }
  }
  REQUIRE(gained > support::law_instances / 4);
}

TEST_CASE("on one node the node-aware plan is the direct plan") {
  support::for_random_instances([](random_instance const& of) {
    auto const one_node = fssdp::topology{{.nodes = 1, .ranks = of.layout.ranks()}};
    auto const direct = make_plan(of.layout, of.where);
    REQUIRE(make_plan(of.layout, of.where, one_node) == direct);
    REQUIRE(make_plan(of.layout, of.where, fssdp::topology{}) == direct);
  });
}

TEST_CASE("equal inputs give equal plans and equal hashes") {
  support::for_random_instances([](random_instance const& of) {
    auto const a = make_plan(of.layout, of.where, of.topo);
    auto const b = make_plan(of.layout, of.where, of.topo);
    REQUIRE(a == b);
    REQUIRE(a.hash_value() == b.hash_value());
    auto const direct = make_plan(of.layout, of.where);
    REQUIRE((a == direct) == (a.hash_value() == direct.hash_value()));
  });
}

namespace {

/// Gives one slice to a chosen rank, and does not say so in the list of what that rank owns.
struct broken_layout : fssdp::block_layout {
  broken_layout() : block_layout{{.experts = 2, .ranks = 2, .slices = 2}} {}
  rank_id wrong{0};
  [[nodiscard]] rank_id owner(fssdp::chunk_id chunk) const {
    auto const last = fssdp::chunk_id{expert_id{1}, fssdp::slice_id{1}};
    return chunk == last ? wrong : block_layout::owner(chunk);
  }
  bool operator==(broken_layout const&) const = default;
};

}  // namespace

TEST_CASE("a layout that breaks its law is refused before it is used") {
  auto layout = broken_layout{};
  auto const where = fssdp::placement{layout};
  auto const topo = fssdp::topology{{.nodes = 2, .ranks = 2}};
  for (auto const rank : {-1, 0, 2, 1000}) {
    layout.wrong = rank_id{rank};
    CAPTURE(rank);
    REQUIRE_THROWS_AS(make_plan(layout, where), fssdp::argument_error);
    REQUIRE_THROWS_AS(make_plan(layout, where, topo), fssdp::argument_error);
    REQUIRE_THROWS_WITH(
        make_plan(layout, where, topo),
        mentions("slice 1 of expert 1") && mentions("of rank " + std::to_string(rank)));
  }
}

TEST_CASE("a placement or a topology of another world is refused") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto const where = fssdp::placement{layout};
  auto const other = fssdp::placement{fssdp::block_layout{{.experts = 4, .ranks = 4}}};
  auto const topo = fssdp::topology{{.nodes = 2, .ranks = 4}};
  REQUIRE_THROWS_AS(make_plan(layout, other), fssdp::argument_error);
  REQUIRE_THROWS_WITH(make_plan(layout, other), mentions("4 ranks") && mentions("2"));
  REQUIRE_THROWS_AS(make_plan(layout, other, topo), fssdp::argument_error);
  REQUIRE_THROWS_AS(make_plan(layout, where, topo), fssdp::argument_error);
  REQUIRE_THROWS_WITH(make_plan(layout, where, topo),
                      mentions("topology has 4 ranks") && mentions("expected 2"));
}
