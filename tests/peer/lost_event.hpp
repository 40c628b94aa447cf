// SPDX-License-Identifier: Apache-2.0
/// An exchange in which a stream may not wait for an event that it should wait for.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "fssdp/collective/all_gather.hpp"
#include "peer/devices.hpp"

namespace peer_tests {

enum class loser { none, sender, receiver };

/// What is sent: the sanitizer keeps four accesses of each eight bytes, and of less each byte
/// counts.
using word = std::int64_t;

/// Who has come how far. Nobody is ordered by it: a lock of the hosts would hide what races.
class progress {
 public:
  void enqueued() { step(hosts_); }
  void ended() { step(streams_); }
  void wait_for_hosts() const { wait(hosts_, 2); }
  void wait_for_streams(int count) const { wait(streams_, count); }

 private:
  static void step(std::atomic<int>& count) { count.fetch_add(1, std::memory_order_relaxed); }
  static void wait(std::atomic<int> const& count, int until) {
    for (auto ms = 0; ms < 20'000 && count.load(std::memory_order_relaxed) < until; ++ms)
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }

  std::atomic<int> hosts_ = 0;    // that have enqueued all
  std::atomic<int> streams_ = 0;  // that have done all
};

inline void is_early(void* of) { static_cast<progress*>(of)->wait_for_hosts(); }
inline void is_late(void*) { std::this_thread::sleep_for(std::chrono::milliseconds{50}); }
inline void is_last(void* of) { static_cast<progress*>(of)->wait_for_streams(1); }
inline void ends(void* of) { static_cast<progress*>(of)->ended(); }

/// Rank 0 sends a 1 that it has just written, and writes a 2 after that. What rank 1 receives if
/// one of the two streams is late; where an event is lost, so late that the other has done all.
[[nodiscard]] inline word received(loser who, int late) {
  gpu_double::reset();
  auto const sends = fssdp::rank_id{0};
  auto const delay = who == loser::none ? is_late : is_last;
  auto so_far = progress{};
  auto const seen = results_of({.ranks = 2}, [&](fssdp::peer_communicator& comm) {
    auto number = std::vector{word{0}};
    auto const one = std::vector{word{1}};
    auto const two = std::vector{word{2}};
    auto const bytes = std::as_writable_bytes(std::span{number});
    auto const is_sender = comm.rank() == sends;
    if (who == (is_sender ? loser::sender : loser::receiver))
      gpu_double::lose_waits_of(comm.stream());
    cudaLaunchHostFunc(comm.stream(), comm.rank() == fssdp::rank_id{late} ? delay : is_early,
                       &so_far);
    if (is_sender) comm.copy(bytes, std::as_bytes(std::span{one}));
    comm.exchange([&](auto& batch) {
      if (is_sender) batch.send(bytes, fssdp::rank_id{1});
      if (!is_sender) batch.recv(bytes, sends);
    });
    if (is_sender) comm.copy(bytes, std::as_bytes(std::span{two}));
    cudaLaunchHostFunc(comm.stream(), ends, &so_far);
    so_far.enqueued();
    so_far.wait_for_streams(2);
    comm.synchronize();
    fssdp::all_gather(comm, std::vector{0}, std::vector<int>(2));  // nobody frees what is read
    return number.front();
  });
  return seen[1];
}

}  // namespace peer_tests
