// SPDX-License-Identifier: Apache-2.0
/// A rank that returns while others still await it is noticed at once, and only by those.
#include <latch>
#include <span>

#include "catch.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/on_all_ranks.hpp"
#include "support/one_number.hpp"

using fssdp::rank_id;
using fssdp::thread_communicator;
using support::receive_from;
using support::send_to;

namespace {

// The deadline is a minute: a rank that gets an error in this file has not waited for it.

/// Whether this error tells that rank 1 has left.
[[nodiscard]] bool names_rank_1(std::exception_ptr const& error) {
  return support::is<fssdp::peer_failed>(error) && support::failed_rank(error) == 1;
}

}  // namespace

TEST_CASE("a rank that awaits one that has left gets an error at once, with the place") {
  auto const call = GENERATE(receive_from, send_to);
  auto const leaves_first = GENERATE(0, 1);
  auto world = fssdp::thread_world{2};
  auto posted = std::latch{1};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    comm.exchange([](auto&) {});
    if (comm.rank() == rank_id{0}) call(comm, rank_id{1}, &posted);
    if (comm.rank() == rank_id{1} && leaves_first == 0) posted.wait();
  });
  REQUIRE(names_rank_1(result.of_rank[0]));
  REQUIRE(result.of_rank[1] == nullptr);
  REQUIRE(names_rank_1(result.of_run));
  REQUIRE_THAT(support::text(result.of_run),
               mentions("rank 1 has left the world") && mentions("rank 0 awaits rank 1") &&
                   mentions("exchange 2") && mentions("round 3") && mentions("plan abcdef"));
}

TEST_CASE("all other ranks get the error through those that await it, in every communicator") {
  auto const in_another_lane = GENERATE(0, 1);
  auto world = fssdp::thread_world{4};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto other = comm.duplicate();
    auto& streamed = in_another_lane == 1 ? other : comm;
    if (comm.rank() == rank_id{0}) receive_from(streamed, rank_id{1});
    if (comm.rank() == rank_id{2}) receive_from(comm, rank_id{0});
    if (comm.rank() == rank_id{3}) send_to(other, rank_id{2});
  });
  for (std::size_t rank : {0U, 2U, 3U}) {
    REQUIRE(names_rank_1(result.of_rank[rank]));
    REQUIRE_THAT(support::text(result.of_rank[rank]), mentions("rank 1 has left the world"));
  }
  REQUIRE(names_rank_1(result.of_run));
}

TEST_CASE("a rank that has finished does not disturb ranks that wait for others") {
  auto world = fssdp::thread_world{4};
  for (int turn = 0; turn < 20; ++turn)
    REQUIRE_NOTHROW(world.run([](thread_communicator& comm) {
      auto const me = comm.rank().value();
      if (me == 3) return;  // without a word; then 0 leaves, then 1
      for (int i = 0; i < 20; ++i) {
        if (me == 0) send_to(comm, rank_id{1});
        if (me == 1) receive_from(comm, rank_id{0});
        if (me == 2) comm.exchange([](auto&) {});
      }
      if (me == 1) send_to(comm, rank_id{2});
      if (me == 2) receive_from(comm, rank_id{1});
    }));
}

TEST_CASE("in the next run all ranks are there again") {
  auto world = fssdp::thread_world{2};
  for (int turn = 0; turn < 3; ++turn) {
    auto const result = support::fallout_of(world, [](thread_communicator& comm) {
      if (comm.rank() == rank_id{0}) receive_from(comm, rank_id{1});
    });
    REQUIRE(names_rank_1(result.of_run));
    REQUIRE_NOTHROW(world.run([](thread_communicator& comm) {
      if (comm.rank() == rank_id{0}) receive_from(comm, rank_id{1});
      if (comm.rank() == rank_id{1}) send_to(comm, rank_id{0});
    }));
  }
}
