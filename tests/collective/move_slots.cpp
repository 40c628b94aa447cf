// SPDX-License-Identifier: Apache-2.0
/// Maps that change in place: every slot has the expert of the new map, with all its tensors.
#include "fssdp/collective/move_slots.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/stream/host_stream.hpp"
#include "support/dice.hpp"
#include "support/on_all_ranks.hpp"
#include "support/refusal.hpp"
#include "support/small_integers.hpp"

using fssdp::expert_id;
using fssdp::physical_experts;
using fssdp::rank_id;
using fssdp::slot_moves;
using fssdp::thread_communicator;

namespace {

using sizes = std::vector<std::size_t>;

struct random_change {
  physical_experts before;
  physical_experts after;
  slot_moves moves;

  explicit random_change(std::uint64_t seed) : random_change{support::dice{seed}} {}

 private:
  explicit random_change(support::dice draw)
      : random_change{draw, draw.between(1, 16), draw.between(1, 6)} {}
  random_change(support::dice& draw, int experts, int ranks)
      : before{{experts, ranks}, some_slots(draw, experts, ranks)},
        after{{experts, ranks}, shuffled(draw, before)},
        moves{before,
              after,
              {.group_size = draw.between(1, 8), .scratch_slots = draw.between(0, 2)}} {}
  static std::vector<expert_id> some_slots(support::dice& draw, int experts, int ranks) {
    auto slots = std::vector<expert_id>{};
    for (int slot = 0; slot < ranks * ((experts + ranks - 1) / ranks + 1); ++slot)
      slots.push_back(expert_id{slot < experts ? slot : draw.between(0, experts - 1)});
    draw.shuffle(slots);
    return slots;
  }
  static std::vector<expert_id> shuffled(support::dice& draw, physical_experts const& of) {
    auto const slots = of.physical_to_logical();
    auto list = std::vector<expert_id>(slots.begin(), slots.end());
    draw.shuffle(list);
    return list;
  }
};

[[nodiscard]] float value(expert_id expert, std::size_t k, std::size_t i) {
  return static_cast<float>(support::small_integer({expert.index(), k, i}));
}

/// How many elements are wrong on a rank afterwards.
template <class Communicator>
[[nodiscard]] int wrong_on(Communicator& comm, random_change const& of) {
  auto slots =
      fssdp::expert_buffer<float>{static_cast<std::size_t>(of.moves.slots_per_rank()), sizes{5, 3}};
  auto const for_each = [&](physical_experts const& map, auto visit) {
    auto const experts = map.on(comm.rank());
    for (std::size_t k = 0; k < 2; ++k)
      for (std::size_t slot = 0; slot < experts.size(); ++slot)
        for (std::size_t i = 0; i < slots.tensors()[k].elements; ++i)
          visit(slots.tensors()[k][slot][i], value(experts[slot], k, i));
  };
  for_each(of.before, [](float& x, float right) { x = right; });
  move_slots(comm, of.moves, slots);
  synchronize(comm);
  auto wrong = 0;
  for_each(of.after, [&](float x, float right) { wrong += x != right ? 1 : 0; });
  return wrong;
}

}  // namespace

TEST_CASE("slots have the experts of the new map, with all their tensors", "[collective]") {
  for (std::uint64_t seed = 0; seed < 2 * FSSDP_LAW_INSTANCES; ++seed) {
    auto const of = random_change{seed};
    INFO("seed " << seed);
    auto const found = support::on_all_ranks(of.moves.ranks(), [&](thread_communicator& inner) {
      auto comm = fssdp::counting{inner};
      auto const wrong = wrong_on(comm, of);
      auto stream = fssdp::host_stream{};
      auto queued = on_stream(inner, stream);
      auto const messages = static_cast<int>(comm.counts().messages_sent);
      return std::vector{wrong, wrong_on(queued, of), messages};
    });
    auto messages = 0;
    for (auto const& of_rank : found) {
      CHECK(of_rank[0] == 0);
      CHECK(of_rank[1] == 0);
      messages += of_rank[2];
    }
    CHECK(messages == 2 * of.moves.sent());
  }
}

TEST_CASE(
    "slots that do not fit the moves are refused, and ranks with different moves get an error",
    "[collective]") {
  auto const ids = [](std::vector<int> const& of) {
    auto list = std::vector<expert_id>{};
    for (auto const id : of) list.emplace_back(id);
    return list;
  };
  auto const before = physical_experts{{4, 2}, ids({0, 1, 2, 3})};
  auto const after = physical_experts{{4, 2}, ids({0, 2, 1, 3})};
  auto const moves = slot_moves{before, after};
  auto few = fssdp::expert_buffer<float>{1, sizes{4}};
  support::refuses([&](auto& comm) { move_slots(comm, moves, few); },
                   "move_slots: slots has 1 slots; expected 2");
  auto const others = slot_moves{before, physical_experts{{4, 2}, ids({0, 3, 2, 1})}};
  CHECK(others.hash_value() != moves.hash_value());
  auto world = fssdp::thread_world{2};
  auto const fallout = support::fallout_of(world, [&](thread_communicator& comm) {
    auto slots = fssdp::expert_buffer<float>{2, sizes{4}};
    move_slots(comm, comm.rank() == rank_id{0} ? moves : others, slots);
  });
  CHECK_THROWS_AS(std::rethrow_exception(fallout.of_run), fssdp::ranks_disagree);
}
