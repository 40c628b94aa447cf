// SPDX-License-Identifier: Apache-2.0
/// An exchange in which a stream may not wait for an event that it should wait for.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <thread>
#include <vector>

#include "fssdp/comm/all_gather.hpp"
#include "peer/devices.hpp"

namespace peer_tests {

enum class loser { none, sender, receiver };

// Both streams begin when the hosts have enqueued all: no lock of theirs orders them then.
inline void is_early(void*) { std::this_thread::sleep_for(std::chrono::milliseconds{25}); }
inline void is_late(void*) { std::this_thread::sleep_for(std::chrono::milliseconds{75}); }

/// Rank 0 sends a 1 that it has just written, and writes a 2 behind that. What rank 1 receives.
[[nodiscard]] inline int received(loser who, int late) {
  gpu_double::reset();
  auto const sends = fssdp::rank_id{0};
  auto const seen = results_of({.ranks = 2}, [&](fssdp::peer_communicator& comm) {
    auto number = std::vector{0};
    auto const one = std::vector{1};
    auto const two = std::vector{2};
    auto const bytes = std::as_writable_bytes(std::span{number});
    auto const is_sender = comm.rank() == sends;
    if (who == (is_sender ? loser::sender : loser::receiver))
      gpu_double::lose_waits_of(comm.stream());
    cudaLaunchHostFunc(comm.stream(), comm.rank() == fssdp::rank_id{late} ? is_late : is_early,
                       nullptr);
    if (is_sender) comm.copy(bytes, std::as_bytes(std::span{one}));
    comm.exchange([&](auto& batch) {
      if (is_sender) batch.send(bytes, fssdp::rank_id{1});
      if (!is_sender) batch.recv(bytes, sends);
    });
    if (is_sender) comm.copy(bytes, std::as_bytes(std::span{two}));
    comm.synchronize();
    fssdp::all_gather(comm, std::vector{0}, std::vector<int>(2));  // nobody frees what is read
    return number.front();
  });
  return seen[1];
}

}  // namespace peer_tests
