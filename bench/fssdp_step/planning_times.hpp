// SPDX-License-Identifier: Apache-2.0
/// How long a rank's solvers and planners take.
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "fssdp/placement/placement.hpp"

namespace step {

/// What solvers and planners have taken, on the thread of the device, which makes this, and on
/// others.
class planning_times {
 public:
  /// An iteration begins. What is planned ahead for it may still be under way, and counts for it.
  void begin() {
    on_caller_ = 0;
    beside_ = 0;
    auto const lock = std::lock_guard{mutex_};
    plans_.clear();
  }
  void add(double seconds) { (is_caller() ? on_caller_ : beside_) += seconds; }
  /// Of a plan for this placement.
  void add_plan(fssdp::placement const& where, double seconds) {
    add(seconds);
    if (is_caller()) return;
    auto const lock = std::lock_guard{mutex_};
    plans_.push_back({where, seconds});
  }

  [[nodiscard]] double on_caller() const { return on_caller_; }
  [[nodiscard]] double beside() const { return beside_; }
  /// What a plan for this placement has taken beside, in this iteration; it is counted once.
  [[nodiscard]] double take_plan(fssdp::placement const& where) {
    auto const lock = std::lock_guard{mutex_};
    auto const at = std::ranges::find(plans_, where, &made_plan::where);
    if (at == plans_.end()) return 0;
    auto const seconds = at->seconds;
    plans_.erase(at);
    return seconds;
  }

 private:
  struct made_plan {
    fssdp::placement where;
    double seconds;
  };

  [[nodiscard]] bool is_caller() const { return std::this_thread::get_id() == caller_; }

  std::thread::id const caller_ = std::this_thread::get_id();
  std::atomic<double> on_caller_ = 0;
  std::atomic<double> beside_ = 0;
  std::mutex mutex_;
  std::vector<made_plan> plans_;  // beside, in this iteration
};

}  // namespace step
