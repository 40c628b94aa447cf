// SPDX-License-Identifier: Apache-2.0
/// A plan is a value whose lists agree with its transfers.
#include "fssdp/plan/transfer_plan.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "catch.hpp"
#include "support/laws.hpp"
#include "support/lists.hpp"

using fssdp::expert_id;
using fssdp::rank_id;
using fssdp::transfer;
using fssdp::transfer_plan;
using support::random_instance;

namespace {

using transfers = std::vector<transfer>;

[[nodiscard]] transfers as_list(std::span<transfer const> given) {
  return {given.begin(), given.end()};
}

}  // namespace

TEST_CASE("transfers lie in canonical order, in whichever they were given") {
  support::for_random_instances([](random_instance const& of) {
    auto shuffled = as_list(of.plan.transfers());
    REQUIRE(std::ranges::is_sorted(shuffled));
    support::dice{shuffled.size()}.shuffle(shuffled);
    auto const again = of.plan.realised_by(shuffled, of.plan.pieces());
    REQUIRE(again == of.plan);
    REQUIRE(again.hash_value() == of.plan.hash_value());
  });
}

TEST_CASE("held, remote and owned agree with placement and layout") {
  support::for_random_instances([](random_instance const& of) {
    auto wrong = 0;
    for (auto const rank : fssdp::first_n<rank_id>(of.layout.ranks())) {
      auto held = std::vector<int>{};
      auto remote = std::vector<int>{};
      for (auto const expert : fssdp::first_n<expert_id>(of.layout.experts())) {
        if (!of.where.holds(rank, expert)) continue;
        held.push_back(expert.value());
        auto const in_place = of.layout.slices() == 1 && of.layout.owner(expert) == rank;
        if (!in_place) remote.push_back(expert.value());
      }
      wrong += support::values(of.plan.materialized(rank)) != held ? 1 : 0;
      wrong += support::values(of.plan.remote(rank)) != remote ? 1 : 0;
      wrong += of.plan.owned_count(rank) != of.layout.owned(rank).size() ? 1 : 0;
      for (std::size_t slot = 0; slot < held.size(); ++slot)
        wrong += transfer_plan::slot_in(of.plan.materialized(rank), expert_id{held[slot]}) != slot
                     ? 1
                     : 0;
    }
    for (auto const chunk : fssdp::all_chunks(of.layout)) {
      wrong += of.plan.owner(chunk) != of.layout.owner(chunk) ? 1 : 0;
      wrong += of.plan.owner_slot(chunk) != static_cast<std::size_t>(of.layout.slot(chunk)) ? 1 : 0;
    }
    REQUIRE(wrong == 0);
  });
}

TEST_CASE("sends and receives cut the transfers by rank and round") {
  support::for_random_instances([](random_instance const& of) {
    auto sends = transfers{};
    auto receives = transfers{};
    auto misplaced = 0;
    for (int round = 0; round < of.plan.rounds(); ++round)
      for (auto const rank : fssdp::first_n<rank_id>(of.layout.ranks())) {
        for (auto const& t : of.plan.sends(rank, round)) {
          misplaced += t.source != rank || t.round != round ? 1 : 0;
          sends.push_back(t);
        }
        for (auto const& t : of.plan.receives(rank, round)) {
          misplaced += t.destination != rank || t.round != round ? 1 : 0;
          receives.push_back(t);
        }
      }
    std::ranges::sort(sends);
    std::ranges::sort(receives);
    REQUIRE(misplaced == 0);
    REQUIRE(sends == as_list(of.plan.transfers()));
    REQUIRE(receives == as_list(of.plan.transfers()));
  });
}

TEST_CASE("shared lists what a rank sends of its own, forwarded all else, each once") {
  support::for_random_instances([](random_instance const& of) {
    auto own = std::vector<std::set<fssdp::chunk_id>>(static_cast<std::size_t>(of.layout.ranks()));
    auto other = std::vector<std::set<fssdp::piece_id>>(own.size());
    for (auto const& t : of.plan.transfers())
      if (t.source == of.layout.owner(t.chunk))
        own[t.source.index()].insert(t.chunk);
      else
        other[t.source.index()].insert(t.what());
    auto wrong = 0;
    auto const differ = [](auto const& list, auto const& set) {
      return !std::ranges::equal(list, set) ? 1 : 0;
    };
    for (auto const rank : fssdp::first_n<rank_id>(of.layout.ranks())) {
      wrong += differ(of.plan.shared(rank), own[rank.index()]);
      wrong += differ(of.plan.forwarded(rank), other[rank.index()]);
    }
    REQUIRE(wrong == 0);
  });
}

TEST_CASE("plans that differ in one thing differ in their hash") {
  auto const r = [](int rank) { return rank_id{rank}; };
  auto const layout = support::reversed_layout{3, {r(0), r(1)}};
  auto where = fssdp::placement{layout};
  where.add(expert_id{0}, r(1));
  where.add(expert_id{0}, r(2));
  where.add(expert_id{1}, r(2));
  auto elsewhere = where;
  elsewhere.add(expert_id{1}, r(0));
  auto const plan = [&](auto const& of, transfers const& t) { return transfer_plan{of, where, t}; };
  auto const other_owner = support::reversed_layout{3, {r(1), r(1)}};
  auto const base = plan(layout, {{0, expert_id{0}, r(0), r(1)}, {0, expert_id{0}, r(0), r(2)}});
  auto const others = std::vector<transfer_plan>{
      plan(layout, {{0, expert_id{0}, r(0), r(1)}}),
      plan(layout, {{0, expert_id{0}, r(0), r(1)}, {1, expert_id{0}, r(0), r(2)}}),
      plan(layout, {{0, expert_id{0}, r(0), r(1)}, {0, expert_id{0}, r(1), r(2)}}),
      plan(layout, {{0, expert_id{0}, r(0), r(1)}, {0, expert_id{1}, r(1), r(2)}}),
      plan(other_owner, {{0, expert_id{0}, r(1), r(0)}, {0, expert_id{0}, r(1), r(2)}}),
      transfer_plan{layout, elsewhere, as_list(base.transfers())},
  };
  for (auto const& other : others) {
    REQUIRE(!(other == base));
    REQUIRE(other.hash_value() != base.hash_value());
  }
}

TEST_CASE("a transfer that cannot be is refused") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 3}};
  auto where = fssdp::placement{layout};
  auto const refuses = [&](int round, int expert, int from, int to, char const* name,
                           char const* expected) {
    auto const make = [&] {
      return transfer_plan{layout, where, {{round, expert_id{expert}, rank_id{from}, rank_id{to}}}};
    };
    REQUIRE_THROWS_AS(make(), fssdp::argument_error);
    REQUIRE_THROWS_WITH(make(), mentions(name) && mentions(expected));
  };
  refuses(0, 2, 0, 1, "expert 2", "0 to 1");
  refuses(0, -1, 0, 1, "expert -1", "0 to 1");
  refuses(0, 0, 3, 1, "from rank 3", "0 to 2");
  refuses(0, 0, 0, -1, "to rank -1", "0 to 2");
  refuses(0, 0, 1, 1, "from rank 1 to rank 1", "two different ranks");
  refuses(0, 0, 1, 0, "rank 0 gets slice 0 of expert 0", "does not own it");
  refuses(-1, 0, 0, 1, "round -1", "0 or more");
  refuses(1, 0, 0, 1, "round 1", "fewer rounds than transfers");
}

TEST_CASE("a placement that does not contain the layout is refused") {
  auto const r = [](int rank) { return rank_id{rank}; };
  auto const where = fssdp::placement{support::reversed_layout{2, {r(0), r(1)}}};
  auto const make = [&] {
    return transfer_plan{support::reversed_layout{2, {r(1), r(1)}}, where, {}};
  };
  REQUIRE_THROWS_AS(make(), fssdp::argument_error);
  REQUIRE_THROWS_WITH(make(), mentions("expert 0") && mentions("rank 1"));
}

TEST_CASE("the links of a chunk are those of its transfers") {
  support::for_random_instances([](random_instance const& of) {
    auto wrong = 0;
    for (auto const chunk : fssdp::all_chunks(of.layout)) {
      auto used = fssdp::link_use{};
      for (auto const& t : of.plan.transfers()) {
        if (t.chunk != chunk) continue;
        auto const inside =
            of.plan.topology().node(t.source) == of.plan.topology().node(t.destination);
        used.inside_nodes = used.inside_nodes || inside;
        used.between_nodes = used.between_nodes || !inside;
      }
      wrong += of.plan.links(chunk) != used ? 1 : 0;
    }
    REQUIRE(wrong == 0);
  });
}

TEST_CASE("a copy of a plan has the same lists, and is valid after the first is destroyed") {
  support::for_random_instances([](random_instance const& of) {
    auto first = std::optional{of.plan};
    auto const copy = *first;
    REQUIRE(copy.transfers().data() == first->transfers().data());
    auto const moved = std::move(*first);
    REQUIRE(first->hash_value() == moved.hash_value());
    first.reset();
    REQUIRE(copy == of.plan.realised_by(as_list(of.plan.transfers()), of.plan.pieces()));
  });
}
