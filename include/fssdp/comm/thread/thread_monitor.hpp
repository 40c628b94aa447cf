// SPDX-License-Identifier: Apache-2.0
/// The state that all communicators of a world of threads share: which ranks sleep where, have
/// left, or have failed.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/comm/group.hpp"
#include "fssdp/comm/thread/port_network.hpp"
#include "fssdp/comm/thread/rank_signal.hpp"
#include "fssdp/comm/thread/shared_copy.hpp"
#include "fssdp/core/error.hpp"

namespace fssdp::detail {

class thread_context;

/// A failure domain: all communicators of a world, or those between the remaining ranks when some
/// are lost.
struct thread_failures {
  struct failure {
    rank_id rank;
    std::string what;
    std::exception_ptr thrown;  // of that rank; null if others have reported it missing
  };
  std::vector<bool> has_rank;  // [ranks of the world]
  std::optional<failure> failed;
  std::atomic<bool> has_failed = false;  // the same, for those that do not hold the lock
};

/// The lock, the deadline, the emulated network if there is one, and the state of all ranks, for
/// all communicators of a world.
class thread_monitor {
 public:
  thread_monitor(int ranks, std::chrono::milliseconds limit, std::optional<port_network> ports)
      : deadline{limit},
        network{std::move(ports)},
        copies{ranks},
        changed_(static_cast<std::size_t>(ranks)),
        waits_for_any_(static_cast<std::size_t>(ranks)),
        has_left_(static_cast<std::size_t>(ranks)),
        left_out_(static_cast<std::size_t>(ranks)),
        waits_(static_cast<std::size_t>(ranks)) {
    for (auto& waits : waits_) waits.reserve(waits_.size());
  }

  std::mutex mutex;  // guards everything here and in the communicators
  std::chrono::milliseconds const deadline;
  std::optional<port_network> network;  // delivers messages in real time
  std::condition_variable network_changed;
  shared_copies copies;  // large copies in progress

  [[nodiscard]] rank_signal& changed(rank_id rank) { return changed_[rank.index()]; }
  /// How many threads of a rank wait for more than one mailbox.
  [[nodiscard]] int& waits_for_any(rank_id rank) { return waits_for_any_[rank.index()]; }

  /// Resets all state: no rank has left or failed.
  /// @return the failure domain of all ranks
  thread_failures& restart() {
    if (network.has_value()) network->clear();
    has_left_.assign(has_left_.size(), false);
    left_out_.assign(left_out_.size(), false);
    failures_.clear();
    failures_.push_back(std::make_unique<thread_failures>());
    failures_.back()->has_rank.assign(has_left_.size(), true);
    return *failures_.back();
  }
  /// The failure domain of remaining ranks. Exceptions of the lost ranks no longer count.
  thread_failures& failures_between(group_ranks const& left, std::vector<rank_id> const& lost) {
    for (auto const rank : lost) left_out_[rank.index()] = true;
    failures_.push_back(std::make_unique<thread_failures>());
    failures_.back()->has_rank.assign(has_left_.size(), false);
    for (auto const rank : first_n<rank_id>(left.size()))
      failures_.back()->has_rank[left.world_rank(rank).index()] = true;
    return *failures_.back();
  }
  /// Records the first failure, and wakes all ranks.
  void fail(thread_failures& of, rank_id failed_rank, std::string const& what,
            std::exception_ptr const& thrown = nullptr) {
    if (!of.failed.has_value()) of.failed = {failed_rank, what, thrown};
    of.has_failed = true;
    wake_all();
  }
  void fail(thread_failures& of, rank_id failed_rank, std::exception_ptr const& thrown) {
    fail(of, failed_rank, detail::what(thrown), thrown);
  }
  /// Records that a rank takes part in no more calls, and wakes all ranks, as some may wait for it.
  void leave(rank_id rank) {
    has_left_[rank.index()] = true;
    wake_all();
  }
  /// The same for a rank that leaves by an exception.
  void leave(rank_id rank, std::exception_ptr const& thrown) {
    for (auto const& failures : failures_)
      if (failures->has_rank[rank.index()]) fail(*failures, rank, thrown);
    leave(rank);
  }
  /// The exception of the run, given that of each rank: the one of the first rank that failed,
  /// unless others have continued without it; null if there is none.
  [[nodiscard]] std::exception_ptr first_of(std::vector<std::exception_ptr> const& thrown) const {
    auto const counts = [&](std::size_t rank) {
      return thrown[rank] != nullptr && !left_out_[rank];
    };
    for (auto const& failures : failures_)
      if (failures->failed.has_value() && counts(failures->failed->rank.index()))
        return thrown[failures->failed->rank.index()];
    for (std::size_t rank = 0; rank < thrown.size(); ++rank)  // a failed rank reports its own error
      if (counts(rank)) return thrown[rank];
    return nullptr;
  }
  [[nodiscard]] bool has_left(rank_id rank) const { return has_left_[rank.index()]; }

  /// Records, until forgotten, that a rank waits for a peer in a communicator.
  void remember(rank_id rank, thread_context const& context, rank_id peer) {
    auto& waits = waits_[rank.index()];
    if (!std::ranges::count(waits, wait{&context, peer})) waits.push_back({&context, peer});
  }
  void forget(rank_id rank, thread_context const& context) {
    std::erase_if(waits_[rank.index()], [&](wait const& w) { return w.context == &context; });
  }
  [[nodiscard]] bool is_waiting(rank_id rank, thread_context const& context) const {
    return std::ranges::count(waits_[rank.index()], &context, &wait::context) != 0;
  }
  /// Wakes another rank that waits, if there is one.
  void wake_a_waiting_rank(rank_id me) {
    for (std::size_t step = 1; step < waits_.size(); ++step) {
      auto const rank = (me.index() + step) % waits_.size();
      if (!waits_[rank].empty()) return changed_[rank].notify_all();
    }
  }
  /// A rank that waits for none, and that `rank` waits for, directly or through others, in this
  /// communicator or in those where the others wait. `peer` if they all wait for one another.
  [[nodiscard]] rank_id end_of_queue(rank_id rank, thread_context const& context,
                                     rank_id peer) const {
    auto seen = std::vector{rank};
    for (std::size_t next = 0; next < seen.size(); ++next) {
      auto const& waits = waits_[seen[next].index()];
      if (waits.empty()) return seen[next];
      auto const here = std::ranges::count(waits, &context, &wait::context) != 0;
      for (auto const& w : waits)
        if ((w.context == &context || !here) && !std::ranges::count(seen, w.peer))
          seen.push_back(w.peer);
    }
    return peer;
  }

 private:
  struct wait {
    thread_context const* context;
    rank_id peer;
    bool operator==(wait const&) const = default;
  };
  void wake_all() {
    for (auto& changed : changed_) changed.notify_all();
  }

  std::vector<rank_signal> changed_;                        // [ranks]
  std::vector<int> waits_for_any_;                          // [ranks]
  std::vector<bool> has_left_;                              // [ranks]
  std::vector<bool> left_out_;                              // [ranks]: others continue without it
  std::vector<std::vector<wait>> waits_;                    // [ranks]
  std::vector<std::unique_ptr<thread_failures>> failures_;  // that of all ranks first
};

}  // namespace fssdp::detail
