// SPDX-License-Identifier: Apache-2.0
/// Every algorithm asks no more of a communicator than the concept says: they all compile and run
/// with the archetype, and on a wire that hides everything else.
#include <vector>

#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/collective/reshard.hpp"
#include "fssdp/comm/faulty.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "support/communicator_archetype.hpp"
#include "support/random_instance.hpp"
#include "support/rank_buffers.hpp"

using support::communicator_archetype;

TEST_CASE("every collective runs on the archetype") {
  auto comm = communicator_archetype{fssdp::rank_id{0}};
  auto const of = support::random_instance{4, {.ranks = 1, .nodes = 1, .experts = 6}};
  auto mine = support::rank_buffers<float>{of, comm.rank()};
  fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.replicas);
  fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.in_one_piece);
  fssdp::sparse_reduce_scatter(comm, of.plan, mine.partials, mine.gradients);
  REQUIRE(mine.wrong_replicas() + mine.wrong_in_one_piece() + mine.wrong_gradients() == 0);

  fssdp::reshard(comm, fssdp::reshard_plan{of.layout, of.layout}, mine.shard);
  REQUIRE(mine.wrong_inputs() == 0);

  auto const three = std::vector{1, 2, 3};
  auto all = std::vector<int>(3);
  fssdp::all_gather(comm, three, all);
  REQUIRE(all == three);
  REQUIRE(fssdp::all_reduce(comm, three) == three);
  REQUIRE(fssdp::sum_loads(comm, fssdp::expert_loads{4, 5}) == fssdp::expert_loads{4, 5});
}

TEST_CASE("tokens are dispatched and combined on the archetype") {
  auto comm = communicator_archetype{fssdp::rank_id{0}};
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 1}};
  auto const counts = fssdp::gather_counts(comm, std::vector<std::uint64_t>{1, 2});
  auto const plan = fssdp::token_plan{counts, fssdp::placement{layout}, comm.rank()};
  auto sent = std::vector{1.0F, 2.0F, 3.0F};
  auto received = std::vector<float>(3);
  auto back = std::vector<float>(3);
  fssdp::dispatch(comm, plan, fssdp::rows_view<float>{sent.data(), 3, 1},
                  fssdp::rows_view<float>{received.data(), 3, 1});
  fssdp::combine(comm, plan, fssdp::rows_view<float>{received.data(), 3, 1},
                 fssdp::rows_view<float>{back.data(), 3, 1});
  REQUIRE(received == sent);
  REQUIRE(back == sent);
}

TEST_CASE("adaptors take the archetype, and each other") {
  auto comm = communicator_archetype{fssdp::rank_id{0}};
  auto sound = fssdp::faulty{comm, {}};
  auto counted = fssdp::counting{sound};
  auto stream = fssdp::host_stream{};
  auto queued = fssdp::on_stream(counted, stream);
  REQUIRE(fssdp::all_reduce(queued, std::vector{7}) == std::vector{7});
  REQUIRE(counted.counts().exchanges == 1);
}
