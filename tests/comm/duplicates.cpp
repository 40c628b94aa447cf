// SPDX-License-Identifier: Apache-2.0
/// Duplicates are communicators of their own: used at the same time, never mixed up, sharing one
/// failure.
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_gather.hpp"
#include "fssdp/comm/faulty.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::rank_id;
using fssdp::thread_communicator;

namespace {

/// Exchanges one number with every other rank: [ranks].
template <class Comm>
void exchange_numbers(Comm& comm, int mine, std::vector<int>& all) {
  fssdp::all_gather(comm, std::span{&mine, 1}, all);
}

[[nodiscard]] std::vector<int> multiples(int ranks, int factor) {
  auto list = std::vector<int>{};
  for (int rank = 0; rank < ranks; ++rank) list.push_back(rank * factor);
  return list;
}

/// Enqueues the exchange of one number; returns at once.
template <class Comm>
void enqueue_exchange(Comm& streamed, int const& mine, std::vector<int>& all) {
  streamed.submit([&mine, &all](auto& comm) { exchange_numbers(comm, mine, all); });
}

}  // namespace

TEST_CASE("two communicators run at once, in any order on each rank") {
  constexpr auto ranks = 4;
  constexpr auto turns = 50;
  using results = std::vector<std::vector<int>>;
  auto const seen = support::on_all_ranks(ranks, [&](thread_communicator& comm) {
    auto first_lane = comm.duplicate();
    auto second_context = comm.duplicate();
    auto const numbers = std::vector{comm.rank().value() * 10, comm.rank().value() * 7};
    auto results_of_first = results(turns, std::vector<int>(ranks));
    auto results_of_second = results_of_first;
    auto first_stream = fssdp::host_stream{};
    auto second_stream = fssdp::host_stream{};
    auto first = fssdp::on_stream(first_lane, first_stream);
    auto second = fssdp::on_stream(second_context, second_stream);
    for (std::size_t turn = 0; turn < turns; ++turn) {
      if (comm.rank().value() % 2 == 0) enqueue_exchange(first, numbers[0], results_of_first[turn]);
      enqueue_exchange(second, numbers[1], results_of_second[turn]);
      if (comm.rank().value() % 2 == 1) enqueue_exchange(first, numbers[0], results_of_first[turn]);
    }
    first.synchronize();
    second.synchronize();
    return std::pair{results_of_first, results_of_second};
  });
  auto const expected =
      std::pair{results(turns, multiples(ranks, 10)), results(turns, multiples(ranks, 7))};
  for (auto const& of_rank : seen) REQUIRE(of_rank == expected);
}

TEST_CASE("a communicator that waits does not hold up another") {
  auto const seen = support::on_all_ranks(2, [](thread_communicator& comm) {
    auto other = comm.duplicate();
    auto stream = fssdp::host_stream{};
    auto queued = fssdp::on_stream(other, stream);
    auto const mine = comm.rank().value() + 1;
    auto behind = std::vector<int>(2);
    auto here = std::vector<int>(2);
    // rank 0 is in the other communicator all the time; rank 1 gets there only after this one
    if (comm.rank() == rank_id{0}) enqueue_exchange(queued, mine, behind);
    exchange_numbers(comm, mine, here);
    if (comm.rank() == rank_id{1}) enqueue_exchange(queued, mine, behind);
    queued.synchronize();
    return std::pair{here, behind};
  });
  for (auto const& [here, behind] : seen) {
    REQUIRE(here == std::vector{1, 2});
    REQUIRE(behind == std::vector{1, 2});
  }
}

TEST_CASE("duplicates of duplicates work as well, and match in the order in which they were made") {
  auto const seen = support::on_all_ranks(3, [](thread_communicator& comm) {
    auto a = comm.duplicate();
    auto b = a.duplicate();
    auto c = comm.duplicate();
    auto all = std::vector<std::vector<int>>(3, std::vector<int>(3));
    exchange_numbers(c, comm.rank().value() * 3, all[2]);
    exchange_numbers(a, comm.rank().value() * 1, all[0]);
    exchange_numbers(b, comm.rank().value() * 2, all[1]);
    return all;
  });
  for (auto const& all : seen)
    for (int streamed = 0; streamed < 3; ++streamed)
      REQUIRE(all[static_cast<std::size_t>(streamed)] == multiples(3, streamed + 1));
}

TEST_CASE("a failure in one communicator ends the wait in all others") {
  auto world = fssdp::thread_world{3};
  auto const result = support::fallout_of(world, [](thread_communicator& comm) {
    auto other = comm.duplicate();
    auto all = std::vector<int>(3);
    if (comm.rank() == rank_id{2}) throw fssdp::injected_fault{"out of order"};
    if (comm.rank() == rank_id{1}) exchange_numbers(other, 1, all);
    exchange_numbers(comm, 0, all);
  });
  REQUIRE(support::is<fssdp::injected_fault>(result.of_run));
  for (std::size_t rank : {0U, 1U}) {
    REQUIRE(support::is<fssdp::peer_failed>(result.of_rank[rank]));
    REQUIRE(support::failed_rank(result.of_rank[rank]) == 2);
  }
}

TEST_CASE(
    "a rank that has failed in one communicator gets what it threw there in all others, again and "
    "again") {
  auto world = fssdp::thread_world{2};
  auto errors = std::vector<std::exception_ptr>{};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto other = comm.duplicate();
    auto all = std::vector<int>(2);
    if (comm.rank() == rank_id{0}) exchange_numbers(other, 0, all);
    auto fails = fssdp::faulty{comm, {.exchange = 1, .moment = fssdp::fault_moment::in_visit}};
    for (int turn = 0; turn < 3; ++turn) try {
        if (turn == 0) fails.lend([](auto&) {}, [](auto const&) {});
        exchange_numbers(turn == 1 ? other : comm, 1, all);
      } catch (...) {
        errors.push_back(std::current_exception());
      }
    std::rethrow_exception(errors.back());
  });
  REQUIRE(errors.size() == 3);
  for (auto const& error : errors) REQUIRE(support::is<fssdp::injected_fault>(error));
  REQUIRE(support::failed_rank(result.of_rank[0]) == 1);
}
