// SPDX-License-Identifier: Apache-2.0
/// Every chunk that changes its owner travels once, and in no round is a rank short of room.
#include "fssdp/plan/reshard_plan.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "catch.hpp"
#include "support/laws.hpp"
#include "support/random_layouts.hpp"

using fssdp::rank_id;
using fssdp::reshard_plan;
using support::random_layouts;
using support::reversed_layout;

namespace {

[[nodiscard]] reshard_plan planned(random_layouts const& of) {
  return {of.from, of.to, {.scratch_slots = of.scratch_slots}};
}

/// What the plan does wrong: chunks that travel once too often or from or to the wrong rank, and
/// rounds in which a rank gets more than it can place.
[[nodiscard]] int faults(random_layouts const& of, reshard_plan const& plan) {
  auto wrong = 0;
  auto at = std::map<fssdp::chunk_id, rank_id>{};
  auto owned = std::vector<int>(static_cast<std::size_t>(of.from.ranks()));
  for (auto const chunk : fssdp::all_chunks(of.from)) {
    at[chunk] = of.from.owner(chunk);
    ++owned[at[chunk].index()];
  }
  auto traveled = std::map<fssdp::chunk_id, int>{};
  for (int round = 0; round < plan.rounds(); ++round)
    for (auto const rank : fssdp::first_n<rank_id>(plan.ranks())) {
      auto const in = static_cast<int>(plan.receives(rank, round).size());
      auto const out = static_cast<int>(plan.sends(rank, round).size());
      for (auto const& move : plan.sends(rank, round)) {
        wrong += at[move.chunk] != rank || move.source != rank || move.round != round ? 1 : 0;
        at[move.chunk] = move.destination;
        ++traveled[move.chunk];
      }
      owned[rank.index()] += in - out;
      wrong += in > of.scratch_slots || out > of.scratch_slots ? 1 : 0;
      wrong += owned[rank.index()] > static_cast<int>(plan.slots(rank)) ? 1 : 0;
    }
  for (auto const chunk : fssdp::all_chunks(of.to)) {
    auto const moves = of.from.owner(chunk) != of.to.owner(chunk) ? 1 : 0;
    wrong += at[chunk] != of.to.owner(chunk) || traveled[chunk] != moves ? 1 : 0;
  }
  return wrong;
}

}  // namespace

TEST_CASE("every chunk that changes its owner travels once, and there is always room for it") {
  for (auto seed = std::uint64_t{1}; seed <= support::law_instances; ++seed) {
    CAPTURE(seed);
    auto const of = random_layouts{seed};
    auto const plan = planned(of);
    REQUIRE(faults(of, plan) == 0);
    auto busiest = std::size_t{0};  // chunks that enter or leave a rank
    for (auto const rank : fssdp::first_n<rank_id>(plan.ranks())) {
      REQUIRE(plan.slots(rank) == std::max(of.from.owned(rank).size(), of.to.owned(rank).size()));
      auto out = std::size_t{0};
      auto in = std::size_t{0};
      for (auto const& move : plan.moves()) {
        out += move.source == rank ? 1 : 0;
        in += move.destination == rank ? 1 : 0;
      }
      busiest = std::max({busiest, out, in});
    }
    auto const per_round = static_cast<std::size_t>(of.scratch_slots);
    REQUIRE(static_cast<std::size_t>(plan.rounds()) == (busiest + per_round - 1) / per_round);
  }
}

TEST_CASE("equal layouts give equal plans, other layouts another hash") {
  for (auto seed = std::uint64_t{1}; seed <= support::law_instances / 10; ++seed) {
    CAPTURE(seed);
    auto const of = random_layouts{seed};
    REQUIRE(planned(of).hash_value() == planned(of).hash_value());
    auto const back = reshard_plan{of.to, of.from, {.scratch_slots = of.scratch_slots}};
    REQUIRE((of.from == of.to) == (planned(of).hash_value() == back.hash_value()));
    REQUIRE(reshard_plan{of.from, of.from}.rounds() == 0);
  }
}

TEST_CASE("a ring of full ranks moves in one round, with one slot of scratch") {
  auto const r = [](int rank) { return rank_id{rank}; };
  auto const from = reversed_layout{4, {r(0), r(1), r(2), r(3)}};
  auto const to = reversed_layout{4, {r(2), r(0), r(3), r(1)}};
  auto const plan = reshard_plan{from, to, {.scratch_slots = 1}};
  REQUIRE(plan.rounds() == 1);
  REQUIRE(plan.moves().size() == 4);
}

TEST_CASE("no more rounds than the busiest rank needs, also on many full ranks") {
  auto const blocks = fssdp::block_layout{{.experts = 2048, .ranks = 64}};
  auto owners = std::vector<rank_id>{};
  for (auto const chunk : fssdp::all_chunks(blocks)) owners.push_back(blocks.owner(chunk));
  auto draw = support::dice{5};
  draw.shuffle(owners);
  auto const shuffled = reversed_layout{64, owners};
  for (auto const slots : {1, 2, 5}) {
    auto const rounds = reshard_plan{blocks, shuffled, {.scratch_slots = slots}}.rounds();
    REQUIRE(rounds <= (32 + slots - 1) / slots);  // every rank has 32 experts
  }
}

TEST_CASE("layouts that do not belong together are refused") {
  auto const of = [](int experts, int ranks, int slices) {
    return fssdp::block_layout{{.experts = experts, .ranks = ranks, .slices = slices}};
  };
  auto const base = of(4, 2, 1);
  for (auto const& other : {of(5, 2, 1), of(4, 3, 1), of(4, 2, 2)})
    REQUIRE_THROWS_AS((reshard_plan{base, other}), fssdp::argument_error);
  REQUIRE_THROWS_WITH((reshard_plan{base, of(5, 2, 1)}),
                      mentions("from 4 experts") && mentions("to 5"));
  REQUIRE_THROWS_WITH((reshard_plan{base, base, {.scratch_slots = 0}}),
                      mentions("scratch_slots is 0") && mentions("1 or more"));
}
