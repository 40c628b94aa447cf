// SPDX-License-Identifier: Apache-2.0
/// Tells a rank that something has happened, asleep or not.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace fssdp::detail {

/// What a rank waits for, under the lock of all: asleep, or, as long as that is short, by looks at a
/// number of its own, which leave the lock to the others.
class alignas(64) rank_signal {
 public:
  /// Something has happened: whoever looks sees it.
  void note() { news_.fetch_add(1, std::memory_order_relaxed); }
  /// The same, and whoever sleeps wakes.
  void notify_all() {
    note();
    changed_.notify_all();
  }
  /// Gives up the lock until something happens, or so many looks have been in vain, and the core
  /// between them: others may need it for what this rank waits for.
  void look(std::unique_lock<std::mutex>& lock, int looks) {
    auto const seen = news_.load(std::memory_order_relaxed);
    auto const is_new = [&] { return news_.load(std::memory_order_relaxed) != seen; };
    lock.unlock();
    while (!is_new() && looks-- > 0) std::this_thread::yield();
    lock_soon(lock);
  }
  /// Takes a lock that others hold often, and never long: to sleep would take longer.
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
  /// @return whether it has not become so late
  [[nodiscard]] bool wait_until(std::unique_lock<std::mutex>& lock,
                                std::chrono::steady_clock::time_point end) {
    return changed_.wait_until(lock, end) == std::cv_status::no_timeout;
  }

 private:
  std::condition_variable changed_;
  std::atomic<std::uint64_t> news_ = 0;
};

}  // namespace fssdp::detail
