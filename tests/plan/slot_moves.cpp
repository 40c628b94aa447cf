// SPDX-License-Identifier: Apache-2.0
/// Moves between maps, replayed slot by slot: no expert is lost on the way, and the map that is
/// wanted comes out.
#include "fssdp/plan/slot_moves.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "catch.hpp"
#include "support/dice.hpp"

using fssdp::expert_id;
using fssdp::physical_experts;
using fssdp::physical_id;
using fssdp::rank_id;
using fssdp::slot_moves;

namespace {

struct random_maps {
  physical_experts before;
  physical_experts after;
  fssdp::slot_move_options options;

  explicit random_maps(std::uint64_t seed) : random_maps{support::dice{seed}} {}

 private:
  explicit random_maps(support::dice draw)
      : random_maps{draw, draw.between(1, 20), draw.between(1, 8)} {}
  random_maps(support::dice& draw, int experts, int ranks)
      : random_maps{draw, experts, ranks, (experts + ranks - 1) / ranks + draw.between(0, 2)} {}
  random_maps(support::dice& draw, int experts, int ranks, int slots)
      : before{{experts, ranks}, some_slots(draw, experts, ranks * slots)},
        after{{experts, ranks}, some_slots(draw, experts, ranks * slots)},
        options{.topology = fssdp::topology{{.nodes = draw.between(1, ranks), .ranks = ranks}},
                .group_size = draw.chance(50) ? 32 : draw.between(1, 4),
                .scratch_slots = draw.between(0, 3)} {}
  static std::vector<expert_id> some_slots(support::dice& draw, int experts, int count) {
    auto slots = std::vector<expert_id>{};
    for (int slot = 0; slot < count; ++slot)
      slots.push_back(expert_id{slot < experts ? slot : draw.between(0, experts - 1)});
    draw.shuffle(slots);
    return slots;
  }
};

/// What is wrong with moves, or nothing: a memory in which they are made.
[[nodiscard]] std::string fault_of(slot_moves const& moves, random_maps const& of) {
  auto slots = std::vector<expert_id>(of.before.physical_to_logical().begin(),
                                      of.before.physical_to_logical().end());
  auto waiting = std::map<physical_id, expert_id>{};
  auto most = std::map<rank_id, int>{};
  for (int round = 0; round < moves.rounds(); ++round) {
    auto peers = std::map<rank_id, std::set<rank_id>>{};
    auto operations = std::map<rank_id, int>{};
    auto direct = std::map<physical_id, expert_id>{};
    for (auto const& move : moves.moves()) {
      if (move.round != round) continue;
      if (slots[move.from.index()] != move.expert) return "a source has lost its expert";
      auto const from = of.before.rank_of(move.from);
      auto const to = of.before.rank_of(move.to);
      if (from != to) {
        peers[from].insert(to);
        peers[to].insert(from);
        ++operations[from];
        ++operations[to];
      }
      if (!move.waits && move.placed != round) return "received in place, but placed later";
      (move.waits ? waiting : direct)[move.to] = move.expert;
    }
    for (auto const& move : moves.moves())  // nobody reads in this round what is received in place
      if (move.round == round && direct.contains(move.from)) return "read while it is overwritten";
    for (auto const& [rank, others] : peers)
      if (others.size() > 1) return "a rank with two peers in a round";
    for (auto const& [rank, count] : operations)
      if (count > of.options.group_size) return "too many operations in a round";
    auto now = std::map<rank_id, int>{};
    for (auto const& [slot, expert] : waiting)
      most[of.before.rank_of(slot)] =
          std::max(most[of.before.rank_of(slot)], ++now[of.before.rank_of(slot)]);
    for (auto const& [slot, expert] : direct) slots[slot.index()] = expert;
    for (auto const& move : moves.moves())
      if (move.waits && move.placed == round) {
        if (!waiting.contains(move.to)) return "placed before it was there";
        slots[move.to.index()] = waiting.at(move.to);
        waiting.erase(move.to);
      }
  }
  for (auto const& [rank, count] : most)
    if (count > moves.scratch_slots()) return "more waits than there is room for";
  if (!std::ranges::equal(slots, of.after.physical_to_logical())) return "another map";
  return {};
}

}  // namespace

TEST_CASE("moves lead from any map to any other, whatever is overwritten on the way", "[plan]") {
  for (std::uint64_t seed = 0; seed < 20 * FSSDP_LAW_INSTANCES; ++seed) {
    auto const of = random_maps{seed};
    auto const moves = slot_moves{of.before, of.after, of.options};
    INFO("seed " << seed);
    CHECK(fault_of(moves, of) == "");
  }
}

TEST_CASE("as many experts move as slots change, and none if none do", "[plan]") {
  for (std::uint64_t seed = 0; seed < FSSDP_LAW_INSTANCES; ++seed) {
    auto const of = random_maps{seed};
    INFO("seed " << seed);
    auto changed = std::size_t{0};
    auto needed = 0;  // slots whose rank has not got their expert
    for (std::size_t slot = 0; slot < of.before.physical_to_logical().size(); ++slot) {
      auto const expert = of.after.physical_to_logical()[slot];
      if (of.before.physical_to_logical()[slot] == expert) continue;
      ++changed;
      auto const on = of.before.on(of.before.rank_of(physical_id{slot}));
      needed += std::ranges::find(on, expert) == on.end() ? 1 : 0;
    }
    auto const moves = slot_moves{of.before, of.after, of.options};
    CHECK(moves.moves().size() == changed);
    CHECK(moves.sent() == needed);
    CHECK(slot_moves{of.before, of.before, of.options}.rounds() == 0);
  }
}

TEST_CASE("experts come from their own node where that has them", "[plan]") {
  auto const ids = [](std::vector<int> const& of) {
    auto list = std::vector<expert_id>{};
    for (auto const id : of) list.emplace_back(id);
    return list;
  };
  auto const before = physical_experts{{3, 4}, ids({0, 1, 1, 2, 0, 2, 0, 2})};
  auto const after = physical_experts{{3, 4}, ids({0, 1, 1, 2, 0, 2, 1, 2})};
  auto const on_two =
      slot_moves{before, after, {.topology = fssdp::topology{{.nodes = 2, .ranks = 4}}}};
  CHECK(on_two.sent() == 1);
  CHECK(on_two.sent_between_nodes() == 1);
  auto const near = physical_experts{{3, 4}, ids({0, 2, 1, 2, 0, 2, 0, 2})};
  auto const inside =
      slot_moves{before, near, {.topology = fssdp::topology{{.nodes = 2, .ranks = 4}}}};
  CHECK(inside.sent() == 1);
  CHECK(inside.sent_between_nodes() == 0);
  CHECK(inside.scratch_slots() == 0);
}

TEST_CASE("two ranks that exchange all they have do so in rounds of a group's size", "[plan]") {
  auto list = std::vector<expert_id>{};
  for (int e = 0; e < 80; ++e) list.emplace_back(e);
  auto other = list;
  std::rotate(other.begin(), other.begin() + 40, other.end());
  auto const before = physical_experts{{80, 2}, list};
  auto const after = physical_experts{{80, 2}, other};
  auto const moves = slot_moves{before, after, {.group_size = 32, .scratch_slots = 40}};
  CHECK(moves.rounds() == 3);  // 80 in groups of 32
  CHECK(moves.sent() == 80);
}

TEST_CASE("maps of other shapes and options that allow nothing are refused", "[plan]") {
  auto const map = physical_experts{{2, 2}, {expert_id{0}, expert_id{1}}};
  auto const other = physical_experts{{2, 1}, {expert_id{0}, expert_id{1}}};
  CHECK_THROWS_WITH(
      slot_moves(map, other),
      "slot_moves: from 2 experts in 1 slots of 2 ranks to 2 in 2 of 1; expected equal "
      "numbers");
  CHECK_THROWS_AS(slot_moves(map, map, {.group_size = 0}), fssdp::argument_error);
  CHECK_THROWS_AS(slot_moves(map, map, {.scratch_slots = -1}), fssdp::argument_error);
  CHECK_THROWS_AS(slot_moves(map, map, {.topology = fssdp::topology{{.ranks = 3}}}),
                  fssdp::argument_error);
}
