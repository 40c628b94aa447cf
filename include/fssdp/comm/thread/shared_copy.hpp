// SPDX-License-Identifier: Apache-2.0
/// Large copies between threads: threads that wait help.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/memory/copy_bytes.hpp"

namespace fssdp::detail {

/// A copy in blocks, which threads take one by one.
class shared_copy {
 public:
  static constexpr std::size_t block_bytes = std::size_t{128} << 10U;

  /// @param whose the rank that makes the copy
  /// @param together as for copy_bytes
  shared_copy(rank_id whose, std::span<std::byte> to, std::span<std::byte const> from,
              std::size_t together)
      : whose_{whose}, to_{to}, from_{from}, together_{std::max(together, from.size())} {}

  [[nodiscard]] rank_id whose() const { return whose_; }
  [[nodiscard]] bool has_blocks() const {
    return next_.load(std::memory_order_relaxed) < from_.size();
  }
  /// Copies blocks until all are taken.
  void work() {
    for (;;) {
      auto const first = next_.fetch_add(block_bytes, std::memory_order_relaxed);
      if (first >= from_.size()) return;
      auto const bytes = std::min(block_bytes, from_.size() - first);
      copy_bytes(to_.subspan(first, bytes), from_.subspan(first, bytes), together_);
    }
  }

  int helpers = 0;  ///< threads that may be copying a block; guarded by the lock of the copies

 private:
  rank_id whose_;
  std::span<std::byte> to_;
  std::span<std::byte const> from_;
  std::size_t together_;
  std::atomic<std::size_t> next_ = 0;
};

/// The copies in progress, for threads that would otherwise be idle. All functions require the
/// lock.
class shared_copies {
 public:
  explicit shared_copies(int ranks) { copies_.reserve(static_cast<std::size_t>(ranks)); }

  void offer(shared_copy& copy) { copies_.push_back(&copy); }
  void withdraw(shared_copy& copy) { std::erase(copies_, &copy); }

  /// Helps with a copy that has blocks left, without the lock.
  /// @param done(rank) is called when the last helper of that rank's copy has finished
  /// @return false if there is no such copy
  template <class Done>
  bool help(std::unique_lock<std::mutex>& lock, Done done) {
    auto const found = std::ranges::find_if(copies_, &shared_copy::has_blocks);
    if (found == copies_.end()) return false;
    auto& copy = **found;
    ++copy.helpers;
    lock.unlock();
    copy.work();
    lock.lock();
    if (--copy.helpers == 0) done(copy.whose());
    return true;
  }

 private:
  std::vector<shared_copy*> copies_;
};

}  // namespace fssdp::detail
