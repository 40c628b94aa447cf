// SPDX-License-Identifier: Apache-2.0
/// Notifies a rank of events, whether it sleeps or polls.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace fssdp::detail {

/// How a rank waits, under a lock that all ranks share: asleep or, for short waits, by polling its
/// own counter, which leaves the lock to the others.
class alignas(64) rank_signal {
 public:
  /// Notifies ranks that poll.
  void note() { news_.fetch_add(1, std::memory_order_relaxed); }
  /// Notifies ranks that poll or sleep.
  void notify_all() {
    note();
    changed_.notify_all();
  }
  /// Releases the lock until something happens, or for at most this many polls; yields the core
  /// between them, as others may need it for what this rank waits for.
  void look(std::unique_lock<std::mutex>& lock, int looks) {
    auto const seen = news_.load(std::memory_order_relaxed);
    auto const is_new = [&] { return news_.load(std::memory_order_relaxed) != seen; };
    lock.unlock();
    while (!is_new() && looks-- > 0) std::this_thread::yield();
    lock_soon(lock);
  }
  /// Takes a lock that others hold often but briefly: sleeping would take longer.
  static void lock_soon(std::unique_lock<std::mutex>& lock) {
    for (auto looks = 100; !lock.try_lock(); --looks) {
      if (looks == 0) return lock.lock();
      std::this_thread::yield();
    }
  }

  template <class Done>
  void wait(std::unique_lock<std::mutex>& lock, Done done) {
    changed_.wait(lock, done);
  }
  /// @return false if the time has passed
  [[nodiscard]] bool wait_until(std::unique_lock<std::mutex>& lock,
                                std::chrono::steady_clock::time_point end) {
    return changed_.wait_until(lock, end) == std::cv_status::no_timeout;
  }

 private:
  std::condition_variable changed_;
  std::atomic<std::uint64_t> news_ = 0;
};

}  // namespace fssdp::detail
