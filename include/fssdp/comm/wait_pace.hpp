// SPDX-License-Identifier: Apache-2.0
/// How a thread waits for what it can only ask for.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

namespace fssdp::detail {

/// Gives up the core between tests that find nothing: others may need it for what this rank waits
/// for. When it takes long, it sleeps: who yields still takes turns from those that compute.
class wait_pace {
  using clock = std::chrono::steady_clock;

 public:
  void renew() { begin_.reset(); }
  void rest() {
    auto const now = clock::now();
    if (!begin_.has_value()) {
      begin_ = now;
      nap_ = std::chrono::microseconds{20};
    }
    if (now - *begin_ < std::chrono::milliseconds{1}) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(nap_);
      nap_ = std::min(nap_ + nap_ / 4, std::chrono::microseconds{200});
    }
  }

 private:
  std::optional<clock::time_point> begin_;  // of the wait
  std::chrono::microseconds nap_{};
};

}  // namespace fssdp::detail
