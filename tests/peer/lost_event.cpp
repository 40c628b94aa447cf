// SPDX-License-Identifier: Apache-2.0
/// A stream that does not wait for an event reads too early, or writes too early: it shows.
#include <chrono>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/all_gather.hpp"
#include "peer/devices.hpp"

using fssdp::peer_communicator;
using fssdp::rank_id;

namespace {

enum class loser { none, sender, receiver };

// Both streams begin when the hosts have enqueued all: no lock of theirs orders them then.
void is_early(void*) { std::this_thread::sleep_for(std::chrono::milliseconds{25}); }
void is_late(void*) { std::this_thread::sleep_for(std::chrono::milliseconds{75}); }

/// Rank 0 sends a 1 that it has just written, and writes a 2 behind that. What rank 1 receives.
[[nodiscard]] int received(loser who, int late) {
  gpu_double::reset();
  auto const sends = rank_id{0};
  auto const seen = peer_tests::results_of({.ranks = 2}, [&](peer_communicator& comm) {
    auto number = std::vector{0};
    auto const one = std::vector{1};
    auto const two = std::vector{2};
    auto const bytes = std::as_writable_bytes(std::span{number});
    auto const is_sender = comm.rank() == sends;
    if (who == (is_sender ? loser::sender : loser::receiver))
      gpu_double::lose_waits_of(comm.stream());
    cudaLaunchHostFunc(comm.stream(), comm.rank() == rank_id{late} ? is_late : is_early, nullptr);
    if (is_sender) comm.copy(bytes, std::as_bytes(std::span{one}));
    comm.exchange([&](auto& batch) {
      if (is_sender) batch.send(bytes, rank_id{1});
      if (!is_sender) batch.recv(bytes, sends);
    });
    if (is_sender) comm.copy(bytes, std::as_bytes(std::span{two}));
    comm.synchronize();
    fssdp::all_gather(comm, std::vector{0}, std::vector<int>(2));  // nobody frees what is read
    return number.front();
  });
  return seen[1];
}

}  // namespace

TEST_CASE("a late stream changes nothing between devices of one process") {
  for (auto const late : {0, 1}) REQUIRE(received(loser::none, late) == 1);
}

// The thread sanitizer is to find both: each is a test that it makes fail.
#ifdef __SANITIZE_THREAD__
TEST_CASE("a receiver that does not wait for its sender is a race", "[.][lost_by_receiver]") {
  (void)received(loser::receiver, 0);
}
TEST_CASE("a sender that does not wait for its receiver is a race", "[.][lost_by_sender]") {
  (void)received(loser::sender, 1);
}
#else
TEST_CASE("a receiver that does not wait for its sender reads what was there before") {
  REQUIRE(received(loser::receiver, 0) == 0);
}
TEST_CASE("a sender that does not wait for its receiver has its memory read too late") {
  REQUIRE(received(loser::sender, 1) == 2);
}
#endif
