// SPDX-License-Identifier: Apache-2.0
/// Calibration adds replicas to those that are there, and weighs what they save.
#include "fssdp/runtime/calibration.hpp"

#include <algorithm>

#include "catch.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/plan/verify.hpp"
#include "support/laws.hpp"
#include "support/random_counts.hpp"

using fssdp::expert_id;
using fssdp::rank_id;

TEST_CASE("an expert that is hotter than expected gets a replica, if there is a slot") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto where = fssdp::placement{layout};
  where.add(expert_id{3}, rank_id{0});
  auto wanted = fssdp::placement{layout};
  wanted.add(expert_id{0}, rank_id{1});
  // rank 0 has 60 tokens for expert 0 and rank 1 has 40; of the others there are 10 each
  auto const counts = fssdp::token_counts{2, 4, {60, 5, 5, 5, 40, 5, 5, 5}};
  auto const options =
      fssdp::calibration_options{.slots = 1, .chunk_bytes = 400'000'000, .seconds_per_row = 1e-3};
  auto const found = fssdp::calibrate(where, wanted, layout, counts, options);
  REQUIRE(found.has_value());
  auto expected = where;
  expected.add(expert_id{0}, rank_id{1});
  REQUIRE(found->where == expected);
  REQUIRE(found->slots == 1);
  REQUIRE(found->plan.transfers().size() == 1);
  // rank 0 has had 100 + 10 + 5 rows, now its own 60 + 10 + 5
  REQUIRE(found->saved_seconds == Approx(40e-3));
  REQUIRE(found->gather_seconds == Approx(1e-3 + 5.5e-6));

  // balanced, rank 1 takes all of expert 3 before, and both take 65 rows afterwards
  auto balanced = options;
  balanced.routing = fssdp::routing_rule::balanced;
  auto const weighed = fssdp::calibrate(where, wanted, layout, counts, balanced);
  REQUIRE(weighed.has_value());
  REQUIRE(weighed->where == expected);
  REQUIRE(weighed->saved_seconds == Approx((110 - 65) * 1e-3));

  REQUIRE_FALSE(
      fssdp::calibrate(where, wanted, layout, counts, {.slots = 0, .chunk_bytes = 1}).has_value());
  REQUIRE_FALSE(fssdp::calibrate(found->where, wanted, layout, counts, options).has_value());
}

TEST_CASE("calibration removes nothing, and takes no more slots than are left") {
  support::for_random_instances(
      support::law_instances / 10, [](support::random_instance const& of) {
        auto const counts = support::random_counts(of, of.loads.size());
        auto const wanted = of.solve(counts.loads(), of.layout);
        for (std::size_t slots : {0U, 1U, 2U, 100U})
          for (auto const use : {fssdp::slot_use::remote, fssdp::slot_use::materialized}) {
            auto const found = fssdp::calibrate(of.where, wanted, of.layout, counts,
                                                {.slots = slots,
                                                 .use = use,
                                                 .chunk_bytes = 1000,
                                                 .seconds_per_row = 1,
                                                 .topology = of.topo});
            if (!found.has_value()) continue;
            auto wrong = 0;
            auto added = 0;
            for (auto const expert : fssdp::first_n<expert_id>(of.layout.experts()))
              for (auto const rank : fssdp::first_n<rank_id>(of.layout.ranks())) {
                auto const before = of.where.holds(rank, expert);
                auto const after = found->where.holds(rank, expert);
                wrong += before && !after ? 1 : 0;
                wrong += after && !before && !wanted.holds(rank, expert) ? 1 : 0;
                wrong += after && !before && !found->plan.where().holds(rank, expert) ? 1 : 0;
                added += after && !before ? 1 : 0;
              }
            REQUIRE(wrong == 0);
            REQUIRE(added > 0);
            REQUIRE(found->slots <= slots);
            REQUIRE(found->slots == fssdp::most_slots_used(found->plan.where(), of.layout, use));
            REQUIRE(found->gather_seconds >= 0);
            REQUIRE_NOTHROW(fssdp::verify(found->plan));
          }
      });
}

TEST_CASE("if all holders are receivers, all that hold a new expert are in the plan") {
  support::for_random_instances(
      support::law_instances / 10, [](support::random_instance const& of) {
        auto const counts = support::random_counts(of, of.loads.size());
        auto const wanted = of.solve(counts.loads(), of.layout);
        for (std::size_t slots : {1U, 3U, 100U}) {
          auto const found = fssdp::calibrate(of.where, wanted, of.layout, counts,
                                              {.slots = slots,
                                               .use = fssdp::slot_use::materialized,
                                               .to = fssdp::receivers::all_holders,
                                               .chunk_bytes = 1000,
                                               .seconds_per_row = 1,
                                               .topology = of.topo});
          if (!found.has_value()) continue;
          auto wrong = 0;
          for (auto const expert : fssdp::first_n<expert_id>(of.layout.experts())) {
            auto const before = of.where.holders(expert);
            auto const after = found->where.holders(expert);
            auto const moved = found->plan.where().holders(expert);
            if (after.size() > before.size())  // all that hold it now
              wrong += std::ranges::equal(after, moved) ? 0 : 1;
            else  // nobody but its owner
              wrong += moved.size() == 1 ? 0 : 1;
          }
          REQUIRE(wrong == 0);
          REQUIRE(found->slots <= slots);
          REQUIRE(found->slots == fssdp::most_slots_used(found->plan.where(), of.layout,
                                                         fssdp::slot_use::materialized));
        }
      });
}
