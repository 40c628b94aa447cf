// SPDX-License-Identifier: Apache-2.0
/// How a thread waits for a condition that it can only poll.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

namespace fssdp::detail {

/// The longest deadline: a century. Clocks overflow not far beyond it; longer deadlines count as
/// this one.
inline constexpr auto longest_wait = std::chrono::hours{24 * 36'525};

/// A deadline that can be added to a time, and doubled, without overflow.
[[nodiscard]] constexpr std::chrono::milliseconds countable(std::chrono::milliseconds deadline) {
  return std::min<std::chrono::milliseconds>(deadline, longest_wait);
}
/// The time at which a deadline that begins now ends.
[[nodiscard]] inline std::chrono::steady_clock::time_point end_of(
    std::chrono::milliseconds deadline) {
  return std::chrono::steady_clock::now() + countable(deadline);
}

/// Yields the core between unsuccessful polls, as others may need it for what this rank waits for.
/// After a while it sleeps: a thread that yields still takes time slices from those that compute.
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
