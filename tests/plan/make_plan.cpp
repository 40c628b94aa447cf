// SPDX-License-Identifier: Apache-2.0
/// What every plan obeys, on random instances.
#include "fssdp/plan/make_plan.hpp"

#include <map>
#include <set>

#include "catch.hpp"
#include "fssdp/plan/traffic.hpp"
#include "fssdp/plan/verify.hpp"
#include "support/laws.hpp"

using fssdp::expert_id;
using fssdp::make_plan;
using fssdp::node_id;
using fssdp::rank_id;
using support::random_instance;

namespace {

[[nodiscard]] std::size_t replicas(random_instance const& of) {
  auto sum = std::size_t{0};
  for (auto const expert : fssdp::first_n<expert_id>(of.layout.experts()))
    sum += of.where.holders(expert).size() - 1;
  return sum;
}

/// (expert, node) for every foreign node that holds the expert.
[[nodiscard]] std::set<std::pair<int, int>> foreign_nodes(random_instance const& of) {
  auto pairs = std::set<std::pair<int, int>>{};
  for (auto const expert : fssdp::first_n<expert_id>(of.layout.experts()))
    for (auto const rank : of.where.holders(expert))
      if (!of.machine.same_node(rank, of.layout.owner(expert)))
        pairs.emplace(expert.value(), of.machine.node(rank).value());
  return pairs;
}

}  // namespace

TEST_CASE("every plan delivers what its placement promises, one transfer per replica") {
  support::for_random_instances([](random_instance const& of) {
    auto const direct = make_plan(of.layout, of.where);
    auto const aware = make_plan(of.layout, of.where, of.machine);
    REQUIRE_NOTHROW(verify(direct));
    REQUIRE_NOTHROW(verify(aware));
    REQUIRE(direct.transfers().size() == replicas(of));
    REQUIRE(aware.transfers().size() == replicas(of));
    REQUIRE(direct.rounds() == (replicas(of) == 0 ? 0 : 1));
    REQUIRE(aware.rounds() <= of.machine.nodes());
    REQUIRE(direct.where() == of.where);
  });
}

TEST_CASE("a direct plan sends from owners only") {
  support::for_random_instances([](random_instance const& of) {
    auto const plan = make_plan(of.layout, of.where);
    auto from_others = 0;
    for (auto const& t : plan.transfers()) from_others += t.source != plan.owner(t.expert) ? 1 : 0;
    REQUIRE(from_others == 0);
  });
}

TEST_CASE("node-aware: an expert enters each foreign node that holds it once, and no other") {
  support::for_random_instances([](random_instance const& of) {
    auto const plan = make_plan(of.layout, of.where, of.machine);
    auto entered = std::set<std::pair<int, int>>{};
    auto sent_by = std::map<std::pair<int, int>, int>{};  // (expert, node): times it leaves
    auto crossings = std::size_t{0};
    for (auto const& t : plan.transfers()) {
      if (of.machine.same_node(t.source, t.destination)) continue;
      ++crossings;
      entered.emplace(t.expert.value(), of.machine.node(t.destination).value());
      ++sent_by[{t.expert.value(), of.machine.node(t.source).value()}];
    }
    auto const wanted = foreign_nodes(of);
    REQUIRE(entered == wanted);
    REQUIRE(crossings == wanted.size());
    auto sent_twice = 0;
    for (auto const& [place, times] : sent_by) sent_twice += times > 1 ? 1 : 0;
    REQUIRE(sent_twice == 0);
    REQUIRE(traffic(plan, of.machine).between_nodes == static_cast<int>(wanted.size()));
    REQUIRE(crossings <= static_cast<std::size_t>(
                             traffic(make_plan(of.layout, of.where), of.machine).between_nodes));
  });
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
    auto const a = make_plan(of.layout, of.where, of.machine);
    auto const b = make_plan(of.layout, of.where, of.machine);
    REQUIRE(a == b);
    REQUIRE(a.hash_value() == b.hash_value());
    auto const direct = make_plan(of.layout, of.where);
    REQUIRE((a == direct) == (a.hash_value() == direct.hash_value()));
  });
}

TEST_CASE("a placement or a topology of another world is refused") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto const where = fssdp::placement{layout};
  auto const other = fssdp::placement{fssdp::block_layout{{.experts = 4, .ranks = 4}}};
  auto const machine = fssdp::topology{{.nodes = 2, .ranks = 4}};
  REQUIRE_THROWS_AS(make_plan(layout, other), fssdp::argument_error);
  REQUIRE_THROWS_WITH(make_plan(layout, other), mentions("4 ranks") && mentions("2"));
  REQUIRE_THROWS_AS(make_plan(layout, other, machine), fssdp::argument_error);
  REQUIRE_THROWS_AS(make_plan(layout, where, machine), fssdp::argument_error);
  REQUIRE_THROWS_WITH(make_plan(layout, where, machine),
                      mentions("topology has 4 ranks") && mentions("expected 2"));
}
