// SPDX-License-Identifier: Apache-2.0
/// Reducing by the rank-ordered plan gives the same bits whatever the schedule and the topology.
#include "fssdp/plan/rank_ordered.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/memory_required.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/collective/wire_bytes.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/plan/verify.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"

using support::random_instance;

namespace {

/// A number whose sums depend on the order in which they are formed.
float uneven(std::size_t seed) { return 1.0F / static_cast<float>(seed % 1013 + 3); }

/// The gradients of all owners, one after the other.
[[nodiscard]] std::vector<float> reduced(random_instance const& of,
                                         fssdp::transfer_plan const& plan) {
  constexpr auto elements = std::size_t{7};
  auto all = std::vector<float>{};
  auto const per_rank = support::on_all_ranks(of.layout.ranks(), [&](auto& comm) {
    auto const rank = comm.rank();
    auto partials = fssdp::make_partials<float>(plan, rank, elements);
    auto gradients = fssdp::make_shard<float>(of.layout, rank, elements);
    auto const held = plan.materialized(rank);
    for (std::size_t slot = 0; slot < held.size(); ++slot)
      for (std::size_t i = 0; i < elements; ++i)
        partials.tensors().front()[slot][i] =
            uneven(held[slot].index() * 131 + rank.index() * 17 + i);
    fssdp::sparse_reduce_scatter(comm, plan, partials, gradients);
    auto mine = std::vector<float>{};
    for (std::size_t slot = 0; slot < gradients.slots(); ++slot)
      for (auto const value : gradients.tensors().front()[slot]) mine.push_back(value);
    return mine;
  });
  for (auto const& mine : per_rank) all.insert(all.end(), mine.begin(), mine.end());
  return all;
}

}  // namespace

TEST_CASE("rank_ordered plans of one placement reduce to the same bits") {
  support::for_random_instances(support::some_instances, [](random_instance const& of) {
    auto const ordered = rank_ordered(of.plan);
    REQUIRE_NOTHROW(verify(ordered));
    REQUIRE(ordered.rounds() <= 1);
    auto const bits = reduced(of, ordered);
    REQUIRE(bits == reduced(of, make_plan(of.layout, of.where)));
    REQUIRE(bits == reduced(of, rank_ordered(make_plan(of.layout, of.where, of.topo))));
  });
}

TEST_CASE("schedules with sums by rank reduce to these bits, and gather like all others") {
  support::for_random_instances(support::some_instances, [](random_instance const& of) {
    auto const cut = std::size_t{10'240'000};
    auto const by_trees = schedule(of.plan, 4 * cut, {.piece_bytes = cut});
    auto const by_rank =
        schedule(of.plan, 4 * cut, {.piece_bytes = cut, .sums = fssdp::reduction_order::by_rank});
    REQUIRE_NOTHROW(verify(by_rank));
    REQUIRE(std::ranges::equal(by_rank.transfers(), by_trees.transfers()));
    REQUIRE(by_rank.reduction() == rank_ordered(of.plan));
    REQUIRE(by_rank != by_trees);
    REQUIRE(by_rank.hash_value() != by_trees.hash_value());
    REQUIRE(reduced(of, by_rank) == reduced(of, rank_ordered(of.plan)));
  });
}

TEST_CASE("a plan that reduces by another plan has the bytes and memory of that plan") {
  support::for_random_instances(support::some_instances, [](random_instance const& of) {
    auto const plan = of.plan.reduced_by(rank_ordered(of.plan));
    auto const by_itself = rank_ordered(of.plan);
    auto const elements = std::array{std::size_t{700}};
    REQUIRE(fssdp::gathered_bytes<float>(plan, elements) ==
            fssdp::gathered_bytes<float>(of.plan, elements));
    REQUIRE(fssdp::reduced_bytes<fssdp::bf16>(plan, elements) ==
            fssdp::reduced_bytes<fssdp::bf16>(by_itself, elements));
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(plan.ranks())) {
      auto const use = fssdp::memory_required<float>(plan, rank, elements);
      REQUIRE(use.gather_scratch ==
              fssdp::memory_required<float>(of.plan, rank, elements).gather_scratch);
      REQUIRE(use.reduce_scratch ==
              fssdp::memory_required<float>(by_itself, rank, elements).reduce_scratch);
    }
  });
}

TEST_CASE(
    "reductions by a plan of another placement or topology are refused, and verify looks at them") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
  auto const plan = make_plan(layout, fssdp::everywhere{}(layout));
  auto const other = make_plan(layout, fssdp::placement{layout});
  REQUIRE_THROWS_AS(plan.reduced_by(other), fssdp::argument_error);
  auto const two_nodes = fssdp::topology{{.nodes = 2, .ranks = 2}};
  auto const elsewhere = make_plan(layout, fssdp::everywhere{}(layout), two_nodes);
  REQUIRE_THROWS_AS(plan.reduced_by(elsewhere), fssdp::argument_error);
  auto const delivers_nothing = plan.realised_by({}, 1);
  REQUIRE_THROWS_AS(verify(plan.reduced_by(delivers_nothing)), fssdp::plan_error);
}
