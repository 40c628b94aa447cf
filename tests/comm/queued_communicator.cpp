// SPDX-License-Identifier: Apache-2.0
/// A communicator bound to a stream: in order, asynchronous, with errors from synchronize.
#include "fssdp/comm/queued_communicator.hpp"

#include <latch>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_gather.hpp"
#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/faulty.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "support/communicator_archetype.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::rank_id;
using fssdp::thread_communicator;

namespace {

template <class Comm>
concept can_be_bound = requires(Comm& comm, fssdp::host_stream& stream) {
  fssdp::on_stream(comm, stream);
};
static_assert(can_be_bound<thread_communicator>);
static_assert(can_be_bound<support::communicator_archetype>);
static_assert(!can_be_bound<fssdp::queued_communicator<thread_communicator>>,
              "what has a stream already");

}  // namespace

TEST_CASE("a bound communicator is the same rank of the same world") {
  auto const same = support::on_all_ranks(3, [](thread_communicator& comm) {
    auto stream = fssdp::host_stream{};
    auto const queued = fssdp::on_stream(comm, stream);
    return queued.rank() == comm.rank() && queued.size() == comm.size() &&
                   &queued.stream() == &stream
               ? 1
               : 0;
  });
  REQUIRE(same == std::vector(3, 1));
}

TEST_CASE("an exchange is enqueued and runs behind the work before it") {
  auto const seen = support::on_all_ranks(2, [](thread_communicator& comm) {
    auto stream = fssdp::host_stream{};
    auto queued = fssdp::on_stream(comm, stream);
    auto const peer = rank_id{1 - comm.rank().value()};
    auto gate = std::latch{1};
    auto mine = 0;
    auto theirs = 0;
    stream.enqueue([&] {
      gate.wait();
      mine = comm.rank().value() + 5;
    });
    auto posted = 0;
    queued.exchange([&](auto& batch) {
      batch.send(std::as_bytes(std::span{&mine, 1}), peer);
      batch.recv(std::as_writable_bytes(std::span{&theirs, 1}), peer);
      posted = 10;
    });
    auto const named = posted;  // at once, though nothing has moved
    gate.count_down();          // reached only because exchange did not wait
    queued.synchronize();
    return std::pair{named, theirs};
  });
  REQUIRE(seen == std::vector{std::pair{10, 6}, std::pair{10, 5}});
}

TEST_CASE("a label is sent with the messages that are enqueued") {
  auto world = fssdp::thread_world{2};
  auto const result = support::fallout_of(world, [](thread_communicator& comm) {
    auto stream = fssdp::host_stream{};
    auto queued = fssdp::on_stream(comm, stream);
    auto const peer = rank_id{1 - comm.rank().value()};
    auto const mine = 0;
    auto theirs = 0;
    queued.exchange([&](auto& batch) {
      set_label(batch, {.plan = comm.rank().index(), .round = 0});
      batch.send(std::as_bytes(std::span{&mine, 1}), peer);
      batch.recv(std::as_writable_bytes(std::span{&theirs, 1}), peer);
    });
    queued.synchronize();
  });
  REQUIRE(support::is<fssdp::ranks_disagree>(result.of_run));
}

TEST_CASE("an error on a stream is thrown by synchronize, and poisons the stream") {
  auto world = fssdp::thread_world{2};
  auto refused = std::vector<int>(2);
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto stream = fssdp::host_stream{};
    auto queued = fssdp::on_stream(comm, stream);
    if (comm.rank() == rank_id{0}) throw fssdp::injected_fault{"out of order"};
    auto value = 0;
    auto const receive = [&](auto& batch) {
      batch.recv(std::as_writable_bytes(std::span{&value, 1}), rank_id{0});
    };
    queued.exchange(receive);
    try {
      queued.synchronize();
    } catch (fssdp::peer_failed const&) {
      try {
        queued.exchange(receive);
      } catch (fssdp::poisoned_stream const&) {
        refused[1] = 1;
      }
      auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
      auto const plan = fssdp::make_plan(layout, fssdp::everywhere{}(layout));
      auto shard = fssdp::make_shard<float>(layout, rank_id{1}, 4);
      auto replicas = fssdp::make_replicas<float>(plan, rank_id{1}, 4);
      auto partials = fssdp::make_partials<float>(plan, rank_id{1}, 4);
      try {
        fssdp::sparse_all_gather(queued, plan, shard, replicas);
      } catch (fssdp::poisoned_stream const&) {
        ++refused[1];
      }
      try {
        fssdp::sparse_reduce_scatter(queued, plan, partials, shard);
      } catch (fssdp::poisoned_stream const& error) {
        refused[1] +=
            std::string{error.what()}.find("rank 0 has failed") == std::string::npos ? 0 : 1;
      }
    }
    queued.synchronize();  // throws the first failure once more
  });
  REQUIRE(refused[1] == 3);  // an exchange, a gather, and a reduction that tells why
  REQUIRE(support::is<fssdp::injected_fault>(result.of_run));
  REQUIRE(support::is<fssdp::peer_failed>(result.of_rank[1]));
  REQUIRE(support::failed_rank(result.of_rank[1]) == 0);
}

TEST_CASE("when queued work of a rank fails, its peers fail, too") {
  auto world = fssdp::thread_world{3};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto stream = fssdp::host_stream{};
    auto breaks = fssdp::faulty{comm, {.exchange = comm.rank().value() == 1 ? 2 : 0}};
    auto queued = fssdp::on_stream(breaks, stream);
    auto const mine = std::vector{comm.rank().value()};
    auto all = std::vector<int>(3);
    fssdp::all_gather(queued, mine, all);
    fssdp::all_gather(queued, mine, all);
  });
  REQUIRE(support::is<fssdp::injected_fault>(result.of_run));
  for (std::size_t rank : {0U, 2U}) {
    REQUIRE(support::is<fssdp::peer_failed>(result.of_rank[rank]));
    REQUIRE(support::failed_rank(result.of_rank[rank]) == 1);
  }
}

TEST_CASE("every host communicator can be bound to a stream, the archetype too") {
  auto comm = support::communicator_archetype{rank_id{0}};
  auto stream = fssdp::host_stream{};
  auto queued = fssdp::on_stream(comm, stream);
  auto posted = false;
  queued.exchange([&](auto&) { posted = true; });
  queued.synchronize();
  REQUIRE(posted);
}
