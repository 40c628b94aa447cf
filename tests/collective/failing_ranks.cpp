// SPDX-License-Identifier: Apache-2.0
/// A rank that fails anywhere inside a gather or a reduction takes the others with it; nobody reads
/// the buffers and the scratch that die with it.
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/on.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/communicator_archetype.hpp"
#include "support/failing.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/rank_buffers.hpp"

using fssdp::thread_communicator;
using support::moment;
using support::random_instance;
using support::rank_buffers;

namespace {

/// A gather and a reduction, then a sum that needs everybody, so that nobody gets away.
template <class Comm>
void train(Comm& comm, rank_buffers<float>& mine) {
  fssdp::sparse_all_gather(comm, mine.of.plan, mine.shard, mine.replicas);
  fssdp::sparse_reduce_scatter(comm, mine.of.plan, mine.partials, mine.gradients);
  (void)fssdp::all_reduce(comm, std::vector{1});
}

template <class Comm>
void train_on_a_stream(Comm& comm, rank_buffers<float>& mine) {
  auto stream = fssdp::host_stream{};
  auto queued = fssdp::on(comm, stream);
  try {
    train(queued, mine);
  } catch (fssdp::poisoned_stream const&) {  // it failed while there was still work to enqueue
    queued.synchronize();                    // throws the reason
  }
}

/// What is wrong; empty if run() throws what the culprit threw and all others name it.
[[nodiscard]] std::string complaint(support::fallout const& result, int culprit) {
  if (!support::is<support::broken_rank>(result.of_run))
    return "run: " + support::text(result.of_run);
  for (std::size_t rank = 0; rank < result.of_rank.size(); ++rank)
    if (static_cast<int>(rank) != culprit &&
        (!support::is<fssdp::peer_failed>(result.of_rank[rank]) ||
         support::culprit(result.of_rank[rank]) != culprit))
      return "rank " + std::to_string(rank) + ": " + support::text(result.of_rank[rank]);
  return {};
}

}  // namespace

TEST_CASE("wherever a rank fails in a gather or a reduction, every other rank names it") {
  auto draw = support::dice{21};
  auto const moments = std::vector{moment::before_exchange, moment::in_post, moment::behind_post,
                                   moment::in_visit, moment::behind_exchange};
  support::for_random_instances(
      support::law_instances / 10 + 1,
      [&](random_instance const& of) {
        auto const culprit = draw.between(0, of.layout.ranks() - 1);
        auto const when = draw.one_of(moments);
        // somewhere in the 2 * rounds exchanges; or before the last one, the sum
        auto const at = draw.between(1, std::max(1, 2 * of.plan.rounds()));
        auto const how = draw.between(0, 2);
        CAPTURE(culprit, static_cast<int>(when), at, how);
        auto world = fssdp::thread_world{of.layout.ranks()};
        auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
          auto breaks = support::failing{comm, when, comm.rank().value() == culprit ? at : 0};
          auto bare = support::exchange_only{breaks};
          auto mine = rank_buffers<float>{of, comm.rank()};
          if (how == 0) train(breaks, mine);
          if (how == 1) train(bare, mine);
          if (how == 2) train_on_a_stream(breaks, mine);
        });
        if (of.layout.ranks() > 1 && of.plan.rounds() > 0)
          REQUIRE(complaint(result, culprit) == "");
      },
      {.ranks = 8, .nodes = 4, .experts = 12});
}

TEST_CASE("ranks with different plans find out") {
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
  REQUIRE(support::culprit(result.of_rank[0]) == 1);
  REQUIRE(support::culprit(result.of_rank[1]) == 0);
  REQUIRE_THAT(support::text(result.of_run), mentions("disagree") && mentions("plan"));
}

TEST_CASE("ranks that call in different order, or with different sizes, find out") {
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
  REQUIRE(support::culprit(result.of_rank[0]) == 1);
  REQUIRE(support::culprit(result.of_rank[1]) == 0);
}

TEST_CASE("a gather that misses a rank names it, with the plan and the round") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
  auto const plan = fssdp::make_plan(layout, fssdp::everywhere{}(layout));
  auto world = fssdp::thread_world{{.ranks = 2, .deadline = std::chrono::milliseconds{200}}};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    if (comm.rank() == fssdp::rank_id{1}) return;  // has left for good
    auto mine = fssdp::make_shard<float>(layout, comm.rank(), 4);
    auto other = fssdp::make_replicas<float>(plan, comm.rank(), 4);
    fssdp::sparse_all_gather(comm, plan, mine, other);
  });
  auto const hash = fssdp::detail::text(std::hex, plan.hash_value());
  REQUIRE(support::is<fssdp::deadline_exceeded>(result.of_rank[0]));
  REQUIRE(support::culprit(result.of_rank[0]) == 1);
  REQUIRE_THAT(support::text(result.of_rank[0]),
               mentions("rank 1") && mentions("plan " + hash) && mentions("round 0"));
}
