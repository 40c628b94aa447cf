// SPDX-License-Identifier: Apache-2.0
/// A contestant: one of the calls that are measured in turns, and how it is timed.
#pragma once

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/comm/thread/thread_communicator.hpp"
#include "fssdp/core/index.hpp"

namespace perf {

/// One way to do the work, for ranks that are threads: of the host's memory, or with a device each.
template <class Comm>
struct basic_contestant {
  std::string name;
  std::function<void(Comm&)> on_threads = {};             ///< by the thread of each rank
  std::function<void()> on_processes = {};                ///< or by the process of each rank
  std::function<double(fssdp::rank_id)> seconds = {};     ///< of a rank's last call, unless the
                                                          ///< clock of the host tells
  std::function<void(fssdp::rank_id)> spoil = {};         ///< before the call that is checked
  std::function<std::size_t(fssdp::rank_id)> wrong = {};  ///< after it: elements that are wrong
  double setup_seconds = 0;  ///< that went by before the first call, for communicators
};
using contestant = basic_contestant<fssdp::thread_communicator>;

/// What came of it.
struct outcome {
  std::vector<double> seconds = {};  ///< of each call that counts
  std::size_t wrong = 0;
};

[[nodiscard]] inline double median(std::vector<double> values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

/// The better one in each turn.
struct best_outcome {
  double seconds = 0;     ///< the median over all turns
  std::size_t which = 0;  ///< the one that is best most often
};
/// @param of as many calls of each, one at least
[[nodiscard]] inline best_outcome best_of(std::span<outcome const> of) {
  auto seconds = std::vector<double>{};
  auto wins = std::vector<int>(of.size());
  for (std::size_t turn = 0; turn < of.front().seconds.size(); ++turn) {
    auto const best =
        std::ranges::min_element(of, {}, [turn](outcome const& one) { return one.seconds[turn]; });
    seconds.push_back(best->seconds[turn]);
    ++wins[static_cast<std::size_t>(best - of.begin())];
  }
  auto const most = std::ranges::max_element(wins) - wins.begin();
  return {median(std::move(seconds)), static_cast<std::size_t>(most)};
}

/// Takes the time that all threads together need.
class stopwatch {
  using clock = std::chrono::steady_clock;

 public:
  explicit stopwatch(int ranks)
      : together_{ranks},
        begin_(static_cast<std::size_t>(ranks)),
        end_(static_cast<std::size_t>(ranks)),
        seconds_(static_cast<std::size_t>(ranks)) {}

  /// Waits for all ranks.
  void wait() { together_.arrive_and_wait(); }
  /// Called by a rank that has failed: no other rank waits for it any more.
  void leave() { together_.arrive_and_drop(); }

  /// Called by every rank: they begin together. Returns the seconds from the first begin to the
  /// last end, on every rank.
  template <class Work>
  double time(fssdp::rank_id rank, Work work) {
    wait();
    begin_[rank.index()] = clock::now();
    work();
    end_[rank.index()] = clock::now();
    wait();
    auto const taken = std::ranges::max(end_) - std::ranges::min(begin_);
    return std::chrono::duration<double>{taken}.count();
  }

  /// Called by every rank with a time of its own, after time(): returns the longest on every rank.
  double longest(fssdp::rank_id rank, double seconds) {
    seconds_[rank.index()] = seconds;
    wait();
    return std::ranges::max(seconds_);
  }

 private:
  std::barrier<> together_;
  std::vector<clock::time_point> begin_;  // [rank]
  std::vector<clock::time_point> end_;    // [rank]
  std::vector<double> seconds_;           // [rank]
};

}  // namespace perf
