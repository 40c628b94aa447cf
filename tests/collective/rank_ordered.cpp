// SPDX-License-Identifier: Apache-2.0
/// Reducing by the rank-ordered plan gives the same bits whatever the schedule and the machine.
#include "fssdp/plan/rank_ordered.hpp"

#include <vector>

#include "catch.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/plan/held.hpp"
#include "fssdp/plan/verify.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"

using support::random_instance;

namespace {

constexpr auto some = support::law_instances / 50 + 1;

/// A number whose sums depend on the order in which they are formed.
float uneven(std::size_t seed) { return 1.0F / static_cast<float>(seed % 1013 + 3); }

/// The gradients of all owners, one behind the other.
[[nodiscard]] std::vector<float> reduced(random_instance const& of,
                                         fssdp::transfer_plan const& plan) {
  constexpr auto elements = std::size_t{7};
  auto all = std::vector<float>{};
  auto const per_rank = support::on_all_ranks(of.layout.ranks(), [&](auto& comm) {
    auto const rank = comm.rank();
    auto partials = fssdp::make_partials<float>(plan, rank, elements);
    auto gradients = fssdp::make_shard<float>(of.layout, rank, elements);
    auto const held = plan.held(rank);
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
  support::for_random_instances(some, [](random_instance const& of) {
    auto const ordered = rank_ordered(of.plan);
    REQUIRE_NOTHROW(verify(ordered));
    REQUIRE(ordered.rounds() <= 1);
    auto const bits = reduced(of, ordered);
    REQUIRE(bits == reduced(of, make_plan(of.layout, of.where)));
    REQUIRE(bits == reduced(of, rank_ordered(make_plan(of.layout, of.where, of.machine))));
  });
}
