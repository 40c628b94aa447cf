// SPDX-License-Identifier: Apache-2.0
/// A rank that does not come is named by those that wait for it, directly or through others.
#include <chrono>
#include <latch>
#include <span>
#include <thread>

#include "catch.hpp"
#include "fssdp/comm/faulty.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/on_all_ranks.hpp"
#include "support/one_number.hpp"

using fssdp::rank_id;
using fssdp::thread_communicator;
using support::receive_from;
using support::send_to;

namespace {

constexpr auto soon = std::chrono::milliseconds{200};

[[nodiscard]] fssdp::thread_world impatient_world(int ranks,
                                                  std::chrono::milliseconds deadline = soon) {
  return fssdp::thread_world{{.ranks = ranks, .deadline = deadline}};
}

/// Runs a function and then, whatever it does, opens the gate by one.
template <class Function>
void then_open(std::latch& gate, Function function) {
  try {
    function();
  } catch (...) {
    gate.count_down();
    throw;
  }
  gate.count_down();
}

}  // namespace

TEST_CASE("a rank that waits for an absent rank gets an error with its name and the place") {
  for (int missing = 0; missing < 3; ++missing) {
    CAPTURE(missing);
    auto others_gone = std::latch{2};
    auto world = impatient_world(3);
    auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
      comm.exchange([](auto&) {});
      if (comm.rank() == rank_id{missing})
        others_gone.wait();
      else
        then_open(others_gone, [&] { receive_from(comm, rank_id{missing}); });
    });
    auto late = 0;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      auto const& error = result.of_rank[rank];
      if (static_cast<int>(rank) == missing) {
        REQUIRE(error == nullptr);
        continue;
      }
      REQUIRE(support::is<fssdp::transport_error>(error));
      REQUIRE(support::failed_rank(error) == missing);
      auto const name = "rank " + std::to_string(missing);
      // the first to lose patience says all; the others get it from that one
      REQUIRE_THAT(support::text(error), mentions("no sign of " + name) &&
                                             mentions("awaits " + name) && mentions("200 ms") &&
                                             mentions("exchange 2") && mentions("round 3") &&
                                             mentions("plan abcdef"));
      late += support::is<fssdp::deadline_exceeded>(error) ? 1 : 0;
    }
    REQUIRE(late >= 1);
    REQUIRE(support::is<fssdp::transport_error>(result.of_run));
    REQUIRE(support::failed_rank(result.of_run) == missing);
  }
}

TEST_CASE("an absent rank is named through others: 0 waits for 1, 1 waits for 2, 2 does not come") {
  auto const in_another_lane = GENERATE(0, 1);  // than that in which 0 waits
  CAPTURE(in_another_lane);
  auto zero_has_posted = std::latch{1};
  auto others_gone = std::latch{2};
  auto world = impatient_world(3, 2 * soon);
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto other = comm.duplicate();
    auto& streamed = in_another_lane == 1 ? other : comm;
    if (comm.rank() == rank_id{0}) {
      then_open(others_gone, [&] { receive_from(comm, rank_id{1}, &zero_has_posted); });
      return;
    }
    zero_has_posted.wait();
    if (comm.rank() == rank_id{1}) {
      // while rank 0 waits already: so it is the first to lose patience
      for (int turn = 0; turn < 3; ++turn) receive_from(other, rank_id{2});
      then_open(others_gone, [&] { receive_from(streamed, rank_id{2}); });
    } else {
      for (int turn = 0; turn < 3; ++turn) send_to(other, rank_id{1});
      others_gone.wait();
    }
  });
  REQUIRE(support::failed_rank(result.of_rank[0]) == 2);
  REQUIRE(support::failed_rank(result.of_rank[1]) == 2);
  REQUIRE(support::failed_rank(result.of_run) == 2);
  REQUIRE((support::is<fssdp::deadline_exceeded>(result.of_rank[0]) ||
           support::is<fssdp::deadline_exceeded>(result.of_rank[1])));
}

TEST_CASE("a sender that waits for an absent receiver gets an error as well") {
  auto other_gone = std::latch{1};
  auto world = impatient_world(2);
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    if (comm.rank() == rank_id{1}) other_gone.wait();
    if (comm.rank() == rank_id{0}) then_open(other_gone, [&] { send_to(comm, rank_id{1}); });
  });
  REQUIRE(support::is<fssdp::deadline_exceeded>(result.of_rank[0]));
  REQUIRE(support::failed_rank(result.of_rank[0]) == 1);
}

TEST_CASE("a rank that lent memory to a stalled rank waits until that has read") {
  auto gate = fssdp::stall_gate{};
  auto is_open = false;
  auto sum = 0;
  auto world = impatient_world(3);
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    if (comm.rank() == rank_id{0}) {
      send_to(comm, rank_id{1});  // the number dies when this gives up
    } else if (comm.rank() == rank_id{1}) {
      comm.lend(
          [&](auto& batch) {
            set_label(batch, {.plan = 0xabcdef, .round = 3});
            batch.borrow(sizeof(int), rank_id{0});
          },
          [&](std::span<std::span<std::byte const> const> lent) {
            gate.wait();
            sum += *reinterpret_cast<int const*>(lent.front().data());
          });
    } else {
      try {
        receive_from(comm, rank_id{1});
      } catch (fssdp::transport_error const&) {
        is_open = true;
        gate.release();
        throw;
      }
    }
  });
  REQUIRE(is_open);
  REQUIRE(sum == 5);
  REQUIRE(support::failed_rank(result.of_rank[2]) == 1);
  // rank 0 may find that all has been read, just when it is told to give up
  REQUIRE((result.of_rank[0] == nullptr || support::failed_rank(result.of_rank[0]) == 1));
  REQUIRE(result.of_rank[1] == nullptr);
}

TEST_CASE("ranks that wait for each other name each other") {
  constexpr auto ranks = 3;
  auto const in_a_ring = [](thread_communicator& comm) {  // nobody sends
    receive_from(comm, rank_id{(comm.rank().value() + 1) % ranks});
  };
  auto world = impatient_world(ranks);
  auto const result = support::fallout_of(world, in_a_ring);
  auto late = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    auto const& error = result.of_rank[static_cast<std::size_t>(rank)];
    REQUIRE(support::is<fssdp::transport_error>(error));
    if (!support::is<fssdp::deadline_exceeded>(error)) continue;
    ++late;
    REQUIRE(support::failed_rank(error) != rank);  // it is there, after all
  }
  REQUIRE(late >= 1);
}

TEST_CASE("the longest deadline that there is means none") {
  auto world = impatient_world(2, std::chrono::milliseconds::max());
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    if (comm.rank() == rank_id{1}) std::this_thread::sleep_for(std::chrono::milliseconds{20});
    if (comm.rank() == rank_id{1})
      send_to(comm, rank_id{0});
    else
      receive_from(comm, rank_id{1});
  });
  REQUIRE(result.of_run == nullptr);
}

TEST_CASE("a rank that comes too late gets an error that says so, and the world works again") {
  auto other_gone = std::latch{1};
  auto world = impatient_world(2);
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    if (comm.rank() == rank_id{1}) {
      other_gone.wait();
      receive_from(comm, rank_id{0});
    } else {
      then_open(other_gone, [&] { receive_from(comm, rank_id{1}); });
    }
  });
  REQUIRE(support::is<fssdp::deadline_exceeded>(result.of_rank[0]));
  REQUIRE(support::is<fssdp::peer_failed>(result.of_rank[1]));
  REQUIRE(support::failed_rank(result.of_rank[1]) == 1);
  REQUIRE_THAT(support::text(result.of_rank[1]), mentions("no sign of rank 1"));
  REQUIRE_NOTHROW(world.run([](thread_communicator& comm) { comm.exchange([](auto&) {}); }));
}
