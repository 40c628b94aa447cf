// SPDX-License-Identifier: Apache-2.0
/// fit_slots takes the least loaded replicas away, and no more than it must.
#include "fssdp/solver/fit_slots.hpp"

#include "catch.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "support/laws.hpp"

using fssdp::expert_id;
using fssdp::rank_id;
using fssdp::slot_use;

TEST_CASE("every rank keeps its most loaded replicas") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto const where = fssdp::everywhere{}(layout);
  auto const fitting = fssdp::fit_slots(where, layout, fssdp::expert_loads{5, 9, 7, 7}, 1);
  auto expected = fssdp::placement{layout};
  expected.add(expert_id{1}, rank_id{1});
  expected.add(expert_id{2}, rank_id{0});  // as loaded as 3, and lower
  REQUIRE(fitting == expected);
  auto const none = fssdp::fit_slots(where, layout, fssdp::expert_loads{5, 9, 7, 7}, 0);
  REQUIRE(none == fssdp::placement{layout});
  auto const held =
      fssdp::fit_slots(where, layout, fssdp::expert_loads{5, 9, 7, 7}, 3, slot_use::materialized);
  REQUIRE(held == expected);
}

TEST_CASE("a placement that has to fit is the same but for the least loaded replicas") {
  support::for_random_instances([](support::random_instance const& of) {
    for (auto const use : {slot_use::remote, slot_use::materialized}) {
      auto const owners = fssdp::placement{of.layout};
      auto const least = static_cast<int>(fssdp::most_slots_used(owners, of.layout, use));
      for (auto const slots : {least, least + 1, least + 3}) {
        auto const fitting = fssdp::fit_slots(of.where, of.layout, of.loads, slots, use);
        auto wrong = 0;
        for (auto const rank : fssdp::first_n<rank_id>(of.layout.ranks())) {
          auto const wanted = fssdp::slots_used(of.where, of.layout, rank, use);
          auto const used = fssdp::slots_used(fitting, of.layout, rank, use);
          wrong += used == std::min(wanted, slots) ? 0 : 1;
          for (auto const kept : fssdp::first_n<expert_id>(of.layout.experts()))
            for (auto const lost : fssdp::first_n<expert_id>(of.layout.experts())) {
              if (!fitting.holds(rank, kept) || owners.holds(rank, kept)) continue;
              wrong += of.where.holds(rank, kept) ? 0 : 1;
              if (of.where.holds(rank, lost) && !fitting.holds(rank, lost))
                wrong += of.loads[lost.index()] <= of.loads[kept.index()] ? 0 : 1;
            }
        }
        REQUIRE(wrong == 0);
        REQUIRE_NOTHROW(check_contains(fitting, of.layout));
      }
      if (least > 0)
        REQUIRE_THROWS_AS(fssdp::fit_slots(of.where, of.layout, of.loads, least - 1, use),
                          fssdp::argument_error);
    }
  });
}

TEST_CASE("slots that do not suffice for owned experts are refused by number") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2, .slices = 2}};
  auto const where = fssdp::placement{layout};
  REQUIRE_THROWS_WITH(fssdp::fit_slots(where, layout, fssdp::expert_loads(4), 1),
                      mentions("1 slots") && mentions("at least 2") && mentions("rank 0"));
  REQUIRE_THROWS_AS(fssdp::fit_slots(where, layout, fssdp::expert_loads(3), 2),
                    fssdp::argument_error);
}
