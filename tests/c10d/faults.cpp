// SPDX-License-Identifier: Apache-2.0
/// Ranks that stall or are in different collectives: all others get an error in time, and no process
/// ends by itself.
#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "c10d/threads.hpp"
#include "catch.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/comm/c10d.hpp"
#include "support/on_all_ranks.hpp"

using c10d_tests::group_maker;
using fssdp::c10d_communicator;
using fssdp::rank_id;
using namespace std::chrono_literals;

namespace {

/// How the ranks end that do `work`, and how long the slowest takes.
struct outcome {
  std::vector<std::exception_ptr> of_rank;
  std::chrono::steady_clock::duration took;
};
[[nodiscard]] outcome outcome_of(int ranks, std::chrono::milliseconds deadline,
                                 std::function<void(c10d_communicator&)> const& work) {
  auto const begin = std::chrono::steady_clock::now();
  auto thrown = c10d_tests::fallout_of(ranks, [&](group_maker make) {
    auto comm = c10d_communicator{make(), {.deadline = deadline}};
    work(comm);
  });
  return {thrown, std::chrono::steady_clock::now() - begin};
}

/// A message of so many bytes to each other rank, and one from each.
void exchange_bytes(c10d_communicator& comm, std::size_t out, std::size_t in,
                    fssdp::batch_label const& label = {.plan = 7}) {
  auto const sent = std::vector<std::byte>(out);
  auto received = std::vector<std::byte>(in * static_cast<std::size_t>(comm.size()));
  comm.exchange([&](auto& batch) {
    batch.label(label);
    for (auto const peer : fssdp::first_n<rank_id>(comm.size())) {
      if (peer == comm.rank()) continue;
      batch.send(sent, peer);
      batch.recv(std::span{received}.subspan(peer.index() * in, in), peer);
    }
  });
}

constexpr auto small = std::size_t{100};
constexpr auto large = std::size_t{1} << 20U;
constexpr auto patient = 20'000ms;  // longer than any of this takes: nobody waits for a deadline
constexpr auto much_less = 10s;

}  // namespace

TEST_CASE("messages with unexpected sizes give ranks_disagree") {
  struct sizes {
    std::size_t sent;
    std::size_t expected;
  };
  // as they end a process, or pass for whole, over Gloo alone
  for (auto const& of :
       {sizes{small, small + 1}, sizes{small + 1, small}, sizes{large, large + 1},
        sizes{large + 1, large}, sizes{small, large}, sizes{large, small}, sizes{0, 1}}) {
    auto const sent = of.sent;
    auto const expected = of.expected;
    CAPTURE(sent, expected);
    auto const found = outcome_of(3, patient, [&](c10d_communicator& comm) {
      auto const odd = comm.rank().value() == 1;
      exchange_bytes(comm, odd ? sent : expected, expected);
    });
    for (auto const rank : {0, 2}) {
      auto const& thrown = found.of_rank[static_cast<std::size_t>(rank)];
      REQUIRE(support::is<fssdp::ranks_disagree>(thrown));
      REQUIRE(support::failed_rank(thrown) == 1);
      REQUIRE_THAT(support::text(thrown), mentions("should have " + std::to_string(expected) +
                                                   " bytes, it has " + std::to_string(sent)));
    }
    auto const& odd = found.of_rank[1];  // which may have got all that it wants
    REQUIRE((odd == nullptr || support::is<fssdp::transport_error>(odd)));
    REQUIRE(found.took < much_less);
  }
}

TEST_CASE("one message too many or too few is an error on both ranks") {
  for (auto const extra : {-1, 1}) {
    CAPTURE(extra);
    auto const found = outcome_of(2, patient, [&](c10d_communicator& comm) {
      auto const peer = rank_id{1 - comm.rank().value()};
      comm.exchange([&](auto& batch) {
        for (auto i = comm.rank().value() == 0 ? 0 : -extra; i < 2; ++i) batch.send({}, peer);
        for (auto i = 0; i < 2; ++i) batch.recv({}, peer);
      });
    });
    REQUIRE(support::is<fssdp::ranks_disagree>(found.of_rank[0]));
    REQUIRE_THAT(support::text(found.of_rank[0]),
                 mentions("2 messages expected, " + std::to_string(2 + extra) + " sent"));
  }
}

TEST_CASE("ranks with different plans get an error before any buffer is written") {
  auto const found = outcome_of(4, patient, [&](c10d_communicator& comm) {
    auto const plan = comm.rank().value() == 2 ? std::uint64_t{8} : std::uint64_t{7};
    exchange_bytes(comm, large, large, {.plan = plan});
  });
  for (auto const& thrown : found.of_rank) REQUIRE(support::is<fssdp::ranks_disagree>(thrown));
  for (auto const rank : {0, 1, 3})
    REQUIRE(support::failed_rank(found.of_rank[static_cast<std::size_t>(rank)]) == 2);
  REQUIRE_THAT(support::text(found.of_rank[0]), mentions("plan 7 here, round 0 of plan 8 there"));
  REQUIRE(found.took < much_less);
}

TEST_CASE("a rank that has missed an exchange is noticed in the next one") {
  auto const found = outcome_of(2, patient, [&](c10d_communicator& comm) {
    if (comm.rank().value() == 0) exchange_bytes(comm, small, small);
    if (comm.rank().value() == 1) try {
        comm.exchange([](auto&) { throw fssdp::argument_error{"no messages"}; });
      } catch (fssdp::argument_error const&) {
        comm.exchange([](auto&) {});
        exchange_bytes(comm, small, small);
      }
  });
  for (auto const& thrown : found.of_rank) {
    REQUIRE(support::is<fssdp::ranks_disagree>(thrown));
    REQUIRE_THAT(support::text(thrown), mentions("exchange "));
  }
}

TEST_CASE("a rank that stalls is named when the deadline has passed") {
  auto const found = outcome_of(4, 1000ms, [&](c10d_communicator& comm) {
    exchange_bytes(comm, large, large);
    if (comm.rank().value() == 1) std::this_thread::sleep_for(4s);
    exchange_bytes(comm, large, large);
  });
  auto named = 0;
  for (auto const& thrown : found.of_rank) {
    REQUIRE(support::is<fssdp::transport_error>(thrown));
    named += support::is<fssdp::deadline_exceeded>(thrown) && support::failed_rank(thrown) == 1;
  }
  REQUIRE(named >= 1);
  REQUIRE_THAT(support::text(found.of_rank[0]), mentions("exchange 2, round 0 of plan 7"));
  REQUIRE(found.took < much_less);
}

TEST_CASE("a c10d communicator that has failed stays failed") {
  auto const refused = c10d_tests::results_of(2, [](group_maker make) {
    auto comm = c10d_communicator{make(), {.deadline = 500ms}};
    auto count = 0;
    try {
      exchange_bytes(comm, small, small, {.plan = comm.rank().index()});
    } catch (fssdp::transport_error const&) {
      count += comm.has_failed() ? 1 : 0;
    }
    try {
      exchange_bytes(comm, small, small);
    } catch (fssdp::poisoned_stream const&) {
      ++count;
    }
    return count;
  });
  REQUIRE(refused == std::vector{2, 2});
}

TEST_CASE("unsupported operations over c10d are errors that name them") {
  REQUIRE_THROWS_WITH(c10d_communicator{c10d_tests::group_pointer{}}, mentions("no process group"));
  c10d_tests::on_groups(1, [](group_maker make) {
    auto const group = make();
    auto comm = c10d_communicator{group};
    auto const refused = [](auto call) {
      try {
        call();
      } catch (fssdp::argument_error const& error) {
        return std::string{error.what()};
      }
      return std::string{"nothing is refused"};
    };
    auto const no_maker = refused([&] { (void)comm.duplicate(); });
    auto const no_time = refused([&] { (void)c10d_communicator{group, {.deadline = 0ms}}; });
    auto const alone = fssdp::all_reduce(comm, std::vector{5});
    if (no_maker.find("make_group") == std::string::npos) throw std::runtime_error{no_maker};
    if (no_time.find("deadline is 0 ms") == std::string::npos) throw std::runtime_error{no_time};
    if (alone != std::vector{5}) throw std::runtime_error{"a sum over one rank"};
  });
}
