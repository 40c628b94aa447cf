// SPDX-License-Identifier: Apache-2.0
/// Ranks that are not in the same collective, or not there at all, are named.
#include <chrono>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "support/on_all_ranks.hpp"
#include "support/random_instance.hpp"

using fssdp::thread_communicator;

TEST_CASE("ranks with different plans get an error") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
  auto const all = fssdp::make_plan(layout, fssdp::everywhere{}(layout));
  auto const reversed = support::reversed_layout{2, {fssdp::rank_id{1}, fssdp::rank_id{0}}};
  auto const other = fssdp::make_plan(reversed, fssdp::everywhere{}(reversed));
  auto world = fssdp::thread_world{2};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto const& plan = comm.rank() == fssdp::rank_id{0} ? all : other;
    auto shard = fssdp::make_shard<float>(layout, comm.rank(), 4);
    auto replicas = fssdp::make_replicas<float>(plan, comm.rank(), 4);
    fssdp::sparse_all_gather(comm, plan, shard, replicas);
  });
  REQUIRE(support::is<fssdp::ranks_disagree>(result.of_run));
  REQUIRE(support::failed_rank(result.of_rank[0]) == 1);
  REQUIRE(support::failed_rank(result.of_rank[1]) == 0);
  REQUIRE_THAT(support::text(result.of_run), mentions("disagree") && mentions("plan"));
}

TEST_CASE(
    "a gather on one rank and a reduction on another, with the same plan, are an error on both") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
  auto const plan = fssdp::make_plan(layout, fssdp::everywhere{}(layout));
  auto world = fssdp::thread_world{2};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto shard = fssdp::make_shard<float>(layout, comm.rank(), 4);
    auto replicas = fssdp::make_replicas<float>(plan, comm.rank(), 4);
    auto partials = fssdp::make_partials<float>(plan, comm.rank(), 4);
    if (comm.rank() == fssdp::rank_id{0})
      fssdp::sparse_all_gather(comm, plan, shard, replicas);
    else
      fssdp::sparse_reduce_scatter(comm, plan, partials, shard);
  });
  REQUIRE(support::is<fssdp::ranks_disagree>(result.of_run));
  REQUIRE(support::failed_rank(result.of_rank[0]) == 1);
  REQUIRE(support::failed_rank(result.of_rank[1]) == 0);
}

TEST_CASE("ranks that call in different order, or with different sizes, get an error") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
  auto const plan = fssdp::make_plan(layout, fssdp::everywhere{}(layout));
  auto const size_of_rank_1 = GENERATE(std::size_t{4}, std::size_t{5});
  auto world = fssdp::thread_world{2};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto const is_second = comm.rank() == fssdp::rank_id{1};
    auto const elements = is_second ? size_of_rank_1 : 4;
    auto mine = fssdp::make_shard<float>(layout, comm.rank(), elements);
    auto other = fssdp::make_replicas<float>(plan, comm.rank(), elements);
    auto const gather = [&] { fssdp::sparse_all_gather(comm, plan, mine, other); };
    auto const count = [&] { (void)fssdp::all_reduce(comm, std::vector{1.0F, 2.0F}); };
    if (is_second && elements == 4) {
      count();
      gather();
    } else {
      gather();
      count();
    }
  });
  REQUIRE(support::is<fssdp::ranks_disagree>(result.of_run));
  REQUIRE(support::failed_rank(result.of_rank[0]) == 1);
  REQUIRE(support::failed_rank(result.of_rank[1]) == 0);
}

TEST_CASE("ranks that wait for one another by different plans get an error at the deadline") {
  // Rank 0 expects expert 1 of rank 1, which sends nothing, and expects expert 2 of rank 2; that one
  // waits for rank 0, which sends nothing either.
  auto const layout = fssdp::block_layout{{.experts = 3, .ranks = 3}};
  auto world = fssdp::thread_world{{.ranks = 3, .deadline = std::chrono::milliseconds{100}}};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto where = fssdp::placement{layout};
    auto const rank = comm.rank();
    where.add(fssdp::expert_id{(rank.value() + 1) % 3}, rank);
    auto const plan = fssdp::make_plan(layout, where);
    auto shard = fssdp::make_shard<float>(layout, rank, 4);
    auto replicas = fssdp::make_replicas<float>(plan, rank, 4);
    fssdp::sparse_all_gather(comm, plan, shard, replicas);
  });
  REQUIRE(support::is<fssdp::ranks_disagree>(result.of_run));
  REQUIRE_THAT(support::text(result.of_run), mentions("disagree") && mentions("equal plans"));
}

TEST_CASE("a rank that others have waited for is told so") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
  auto const plan = fssdp::make_plan(layout, fssdp::everywhere{}(layout));
  auto world = fssdp::thread_world{{.ranks = 2, .deadline = std::chrono::milliseconds{50}}};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto shard = fssdp::make_shard<float>(layout, comm.rank(), 4);
    auto replicas = fssdp::make_replicas<float>(plan, comm.rank(), 4);
    if (comm.rank() == fssdp::rank_id{0}) std::this_thread::sleep_for(std::chrono::seconds{1});
    fssdp::sparse_all_gather(comm, plan, shard, replicas);
  });
  REQUIRE(support::is<fssdp::deadline_exceeded>(result.of_rank[1]));
  REQUIRE(support::is<fssdp::peer_failed>(result.of_rank[0]));
  REQUIRE_THAT(support::text(result.of_rank[0]),
               mentions("rank 0: the other ranks no longer wait for this one: no sign of rank 0"));
}

TEST_CASE("a gather that misses a rank names it, with the plan and the round") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
  auto const plan = fssdp::make_plan(layout, fssdp::everywhere{}(layout));
  auto world = fssdp::thread_world{2};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    if (comm.rank() == fssdp::rank_id{1}) return;  // has left for good
    auto mine = fssdp::make_shard<float>(layout, comm.rank(), 4);
    auto other = fssdp::make_replicas<float>(plan, comm.rank(), 4);
    fssdp::sparse_all_gather(comm, plan, mine, other);
  });
  auto const hash = fssdp::detail::text(fssdp::detail::hexadecimal{plan.hash_value()});
  REQUIRE(support::is<fssdp::peer_failed>(result.of_rank[0]));
  REQUIRE(support::failed_rank(result.of_rank[0]) == 1);
  REQUIRE_THAT(support::text(result.of_rank[0]),
               mentions("rank 1 has left") && mentions("plan " + hash) && mentions("round 0"));
}
