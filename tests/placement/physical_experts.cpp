// SPDX-License-Identifier: Apache-2.0
/// Slots to placements and back.
#include "fssdp/placement/physical_experts.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "support/laws.hpp"
#include "support/lists.hpp"

using fssdp::block_layout;
using fssdp::expert_id;
using fssdp::physical_experts;
using fssdp::physical_id;
using fssdp::placement;
using fssdp::rank_id;
using support::random_instance;

namespace {

[[nodiscard]] physical_experts slots_with(int experts, int ranks, std::vector<int> const& logical) {
  auto list = std::vector<expert_id>{};
  for (auto const expert : logical) list.emplace_back(expert);
  return {{.experts = experts, .ranks = ranks}, list};
}

[[nodiscard]] std::vector<int> slot_owners(fssdp::table_layout const& layout) {
  auto owners = std::vector<int>{};
  for (auto const expert : fssdp::first_n<expert_id>(layout.experts()))
    owners.push_back(layout.owner(expert).value());
  return owners;
}

/// Any experts in the slots, but each in one at least.
[[nodiscard]] physical_experts random_slots(std::uint64_t seed) {
  auto draw = support::dice{seed};
  auto const ranks = draw.between(1, 8);
  auto const experts = draw.between(1, 12);
  auto const slots = ((experts + ranks - 1) / ranks + draw.between(0, 3)) * ranks;
  auto logical = std::vector<int>{};
  for (int slot = 0; slot < slots; ++slot)
    logical.push_back(slot < experts ? slot : draw.between(0, experts - 1));
  draw.shuffle(logical);
  return slots_with(experts, ranks, logical);
}

}  // namespace

TEST_CASE("slots know the experts, and experts their slots") {
  auto const slots = slots_with(3, 2, {2, 0, 0, 1, 2, 2});
  REQUIRE(slots.experts() == 3);
  REQUIRE(slots.ranks() == 2);
  REQUIRE(slots.slots_per_rank() == 3);
  REQUIRE(support::values(slots.physical_to_logical()) == std::vector{2, 0, 0, 1, 2, 2});
  REQUIRE(support::values(slots.on(rank_id{1})) == std::vector{1, 2, 2});
  REQUIRE(support::values(slots.logical_to_physical(expert_id{2})) == std::vector{0, 4, 5});
  REQUIRE(slots.logical_count(expert_id{0}) == 2);
  REQUIRE(slots.logical_count(expert_id{1}) == 1);
  REQUIRE(slots.rank_of(physical_id{2}) == rank_id{0});
  REQUIRE(slots.rank_of(physical_id{3}) == rank_id{1});
  REQUIRE(slots == slots_with(3, 2, {2, 0, 0, 1, 2, 2}));
  REQUIRE(slots != slots_with(3, 2, {2, 0, 0, 1, 2, 1}));
  REQUIRE(slots != slots_with(3, 3, {2, 0, 0, 1, 2, 2}));
  REQUIRE(physical_experts{} == physical_experts{});
}

TEST_CASE("an expert belongs to the rank of its first slot, and slots of one rank count once") {
  auto const slots = slots_with(3, 2, {2, 0, 0, 1, 2, 2});
  auto const layout = fssdp::layout_of(slots);
  REQUIRE(slot_owners(layout) == std::vector{0, 1, 0});
  REQUIRE(support::holders(fssdp::placement_of(slots, layout)) ==
          std::vector<std::vector<int>>{{0}, {1}, {0, 1}});
}

TEST_CASE("a rank's own experts come first, in their slots' order, then its replicas") {
  auto const r = [](int rank) { return rank_id{rank}; };
  auto const layout = support::reversed_layout{2, {r(1), r(0), r(1), r(0)}};
  auto where = placement{layout};
  where.add(expert_id{0}, r(0));
  where.add(expert_id{3}, r(1));
  REQUIRE(support::values(fssdp::physical_of(where, layout).physical_to_logical()) ==
          std::vector{3, 1, 0, 2, 0, 3});
  auto const blocks = block_layout{{.experts = 6, .ranks = 3}};
  REQUIRE(support::values(fssdp::physical_of(placement{blocks}, blocks).physical_to_logical()) ==
          std::vector{0, 1, 2, 3, 4, 5});
}

TEST_CASE("leftover slots repeat experts that no other rank holds, or else any of the rank's") {
  auto const layout = block_layout{{.experts = 6, .ranks = 3}};
  auto where = placement{layout};
  where.add(expert_id{0}, rank_id{1});
  where.add(expert_id{5}, rank_id{1});
  where.add(expert_id{4}, rank_id{1});
  // d0 alone has e1; d1 e2 and e3; d2 nothing that d1 has not.
  REQUIRE(support::values(fssdp::physical_of(where, layout, 8).physical_to_logical()) ==
          std::vector{0, 1, 1, 1, 1, 1, 1, 1,    //
                      2, 3, 0, 4, 5, 2, 3, 2,    //
                      4, 5, 4, 5, 4, 5, 4, 5});  //
}

TEST_CASE("a placement is recovered from its slots, for any number of slots") {
  support::for_random_instances([](random_instance const& of) {
    auto most = 0;
    auto least = of.layout.experts();
    for (auto const rank : fssdp::first_n<rank_id>(of.layout.ranks())) {
      most = std::max(most, of.where.held_count(rank));
      least = std::min(least, of.where.held_count(rank));
    }
    if (least == 0) {
      REQUIRE_THROWS_WITH(fssdp::physical_of(of.where, of.layout, most),
                          mentions("holds no expert"));
      return;
    }
    for (auto const slots : {most, most + 1, most + 4}) {
      auto const physical = fssdp::physical_of(of.where, of.layout, slots);
      REQUIRE(physical.slots_per_rank() == slots);
      REQUIRE(fssdp::placement_of(physical, of.layout) == of.where);
    }
    if (least == most)
      REQUIRE(fssdp::physical_of(of.where, of.layout) ==
              fssdp::physical_of(of.where, of.layout, most));
    else
      REQUIRE_THROWS_AS(fssdp::physical_of(of.where, of.layout), fssdp::argument_error);
  });
}

TEST_CASE("slots are recovered from their placement, up to order and repetition") {
  for (auto seed = std::uint64_t{1}; seed <= std::uint64_t{support::law_instances}; ++seed) {
    CAPTURE(seed);
    auto const slots = random_slots(seed);
    auto const layout = fssdp::layout_of(slots);
    auto const where = fssdp::placement_of(slots, layout);
    check_contains(where, layout);
    auto const again = fssdp::physical_of(where, layout, slots.slots_per_rank());
    REQUIRE(fssdp::layout_of(again) == layout);
    REQUIRE(fssdp::placement_of(again, layout) == where);
    for (auto const rank : fssdp::first_n<rank_id>(slots.ranks())) {
      auto const before = support::values(slots.on(rank));
      auto const after = support::values(again.on(rank));
      REQUIRE(std::set(before.begin(), before.end()) == std::set(after.begin(), after.end()));
    }
    auto all = 0;
    for (auto const expert : fssdp::first_n<expert_id>(slots.experts())) {
      all += slots.logical_count(expert);
      for (auto const slot : slots.logical_to_physical(expert))
        REQUIRE(slots.physical_to_logical()[slot.index()] == expert);
    }
    REQUIRE(all == slots.ranks() * slots.slots_per_rank());
  }
}

TEST_CASE("a table of slots changed at random is refused with the reason, or is valid") {
  using limits = std::numeric_limits<int>;
  auto accepted = 0;
  constexpr auto wanted = 10'000;
  for (auto seed = std::uint64_t{1}; seed <= wanted; ++seed) {
    auto const whole = random_slots(seed);
    auto draw = support::dice{seed + 1'000'000};
    auto logical = support::values(whole.physical_to_logical());
    auto experts = whole.experts();
    auto ranks = whole.ranks();
    auto const number = [&](int end) {
      return draw.chance(60) ? draw.between(0, end)
                             : draw.one_of(std::vector{-1, limits::min(), limits::max(), 1 << 16});
    };
    for (int times = draw.between(1, 3); times > 0 && !logical.empty(); --times) {
      auto const at = draw.between(0, static_cast<int>(logical.size()) - 1);
      auto& slot = logical[static_cast<std::size_t>(at)];
      switch (draw.between(0, 9)) {
        case 0:
          experts = number(2 * whole.experts());
          break;
        case 1:
          ranks = number(8);
          break;
        case 2:
          logical.erase(logical.begin() + at);
          break;
        case 3:
          logical.insert(logical.begin() + at, draw.one_of(std::vector{logical}));
          break;
        default:
          slot = number(whole.experts());
      }
    }
    CAPTURE(seed, logical, experts, ranks);
    auto const slots = logical.size();
    auto const all = std::set(logical.begin(), logical.end());
    auto const is_table = experts >= 1 && ranks >= 1 &&
                          slots % static_cast<std::size_t>(ranks) == 0 &&
                          all.size() == static_cast<std::size_t>(experts) && *all.begin() == 0 &&
                          *all.rbegin() == experts - 1;
    try {
      auto const read = slots_with(experts, ranks, logical);
      REQUIRE(is_table);
      ++accepted;
      auto const holders = support::holders(fssdp::placement_of(read, fssdp::layout_of(read)));
      auto expected = std::vector<std::set<int>>(static_cast<std::size_t>(experts));
      for (std::size_t slot = 0; slot < slots; ++slot)
        expected[static_cast<std::size_t>(logical[slot])].insert(
            static_cast<int>(slot * static_cast<std::size_t>(ranks) / slots));
      REQUIRE(std::ranges::equal(holders, expected, std::ranges::equal));
    } catch (fssdp::argument_error const& error) {
      REQUIRE(!is_table);
      REQUIRE_THAT(error.what(), mentions("physical_experts: ") && mentions("; expected "));
    }
  }
  REQUIRE(accepted > wanted / 20);
  REQUIRE(accepted < wanted / 2);
}

TEST_CASE("invalid slots are an error that names the value") {
  REQUIRE_THROWS_AS(slots_with(3, 2, {0, 1, 1, 0}), fssdp::argument_error);
  REQUIRE_THROWS_WITH(slots_with(3, 2, {0, 1, 1, 0}), mentions("expert 2 has no slot"));
  REQUIRE_THROWS_WITH(slots_with(2, 2, {0, 1, 2, 0}),
                      mentions("slot 2 holds expert 2") && mentions("0 to 1"));
  REQUIRE_THROWS_WITH(slots_with(2, 2, {0, -1, 1, 0}), mentions("slot 1 holds expert -1"));
  REQUIRE_THROWS_WITH(slots_with(2, 3, {0, 1, 1, 0}), mentions("4 slots on 3 ranks"));
  REQUIRE_THROWS_WITH(slots_with(0, 3, {}), mentions("0 experts"));
  REQUIRE_THROWS_WITH(slots_with(std::numeric_limits<int>::max(), 2, {0, 1, 1, 0}),
                      mentions("2147483647 experts in 4 slots"));
  REQUIRE_THROWS_WITH(slots_with(1, 0, {}), mentions("0 ranks"));
}

TEST_CASE("a placement that does not fit its slots is refused, and the rank is named") {
  auto const layout = block_layout{{.experts = 4, .ranks = 2}};
  auto where = placement{layout};
  where.add(expert_id{0}, rank_id{1});
  REQUIRE_THROWS_AS(fssdp::physical_of(where, layout), fssdp::argument_error);
  REQUIRE_THROWS_WITH(fssdp::physical_of(where, layout),
                      mentions("rank 1 holds 3 experts") && mentions("expected 2"));
  REQUIRE_THROWS_WITH(fssdp::physical_of(where, layout, 2),
                      mentions("rank 1 holds 3 experts") && mentions("at most 2"));
  REQUIRE_THROWS_AS(fssdp::physical_of(where, layout, -1), fssdp::argument_error);
  auto const few = block_layout{{.experts = 1, .ranks = 2}};
  REQUIRE_THROWS_WITH(fssdp::physical_of(placement{few}, few, 2),
                      mentions("rank 1 holds no expert"));
  auto const slots = slots_with(4, 2, {0, 1, 2, 3});
  auto const moved =
      fssdp::table_layout{{.ranks = 2}, {rank_id{0}, rank_id{1}, rank_id{1}, rank_id{1}}};
  REQUIRE_THROWS_WITH(fssdp::placement_of(slots, moved), mentions("rank 1 owns expert 1"));
  REQUIRE_THROWS_WITH(fssdp::placement_of(slots, block_layout{{.experts = 5, .ranks = 2}}),
                      mentions("4 experts") && mentions("5"));
}
