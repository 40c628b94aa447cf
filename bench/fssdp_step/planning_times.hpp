// SPDX-License-Identifier: Apache-2.0
/// How long a rank's solvers and planners take.
#pragma once

#include <atomic>
#include <thread>

namespace step {

/// What solvers and planners have taken, on the thread of the device, which makes this, and on
/// others.
class planning_times {
 public:
  /// An iteration begins. What is planned ahead for it may still be under way, and counts for it.
  void begin() {
    on_caller_ = 0;
    beside_ = 0;
  }
  void add(double seconds) {
    (std::this_thread::get_id() == caller_ ? on_caller_ : beside_) += seconds;
  }
  [[nodiscard]] double on_caller() const { return on_caller_; }
  [[nodiscard]] double beside() const { return beside_; }

 private:
  std::thread::id const caller_ = std::this_thread::get_id();
  std::atomic<double> on_caller_ = 0;
  std::atomic<double> beside_ = 0;
};

}  // namespace step
