// SPDX-License-Identifier: Apache-2.0
/// How a process waits: it polls, receives notices, and gives up at the deadline.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "fssdp/comm/mpi/mpi_call.hpp"
#include "fssdp/comm/mpi/mpi_monitor.hpp"
#include "fssdp/comm/wait_pace.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

/// One wait in a communicator. All functions require the lock.
class mpi_wait {
  using clock = std::chrono::steady_clock;

 public:
  mpi_wait(mpi_monitor& monitor, int context) : monitor_{monitor}, context_{context} { renew(); }
  mpi_wait(mpi_wait const&) = delete;
  mpi_wait& operator=(mpi_wait const&) = delete;
  ~mpi_wait() { monitor_.forget(context_); }

  /// To be called when something has arrived: restarts the deadline.
  void renew() {
    until_ = end_of(monitor_.options().deadline);
    pace_.renew();
    suspects_.clear();
  }
  /// To be called after an unsuccessful poll: yields the core, and releases the lock meanwhile. Not
  /// every time, as most MPI implementations yield in unsuccessful polls, too.
  void rest(mpi_monitor::lock_type& lock) {
    if (++tests_ % tests_per_rest == 0) {
      auto const open = mpi_unlocked{lock};
      pace_.rest();
    }
    monitor_.note_poll();
    monitor_.listen_at_times();
  }
  /// After the deadline: which rank is missing. This may not be `peer`: a peer that itself waits
  /// for another rank says so when asked, and that rank is asked in turn. The missing rank is one
  /// that does not answer, or waits for none. It is `peer` if they all wait for one another.
  [[nodiscard]] std::optional<rank_id> missing(rank_id peer) {
    monitor_.remember(context_, peer);
    if (suspects_.empty()) {
      if (clock::now() < until_) return {};
      suspect(peer);
    }
    auto const last = suspects_.back();
    auto const answer = monitor_.answer(last);
    if (!answer.has_value()) return clock::now() < until_ ? std::nullopt : std::optional{last};
    if (*answer == last) return last;
    if (*answer == monitor_.rank() || std::ranges::count(suspects_, *answer) != 0)
      return suspects_.front();
    suspect(*answer);
    return {};
  }

 private:
  void suspect(rank_id rank) {
    suspects_.push_back(rank);
    monitor_.ask(rank, context_);
    until_ = clock::now() + std::clamp<clock::duration>(countable(monitor_.options().deadline) / 4,
                                                        std::chrono::milliseconds{100},
                                                        std::chrono::seconds{2});
  }

  static constexpr unsigned tests_per_rest = 4;

  mpi_monitor& monitor_;
  int context_;
  unsigned tests_ = 0;  // unsuccessful polls
  wait_pace pace_;
  clock::time_point until_;
  std::vector<rank_id> suspects_;  // each waits for the next
};

}  // namespace fssdp::detail
