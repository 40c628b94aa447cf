// SPDX-License-Identifier: Apache-2.0
/// Ends the process when something it watches hangs, and says what.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

namespace support {

class watchdog {
  using clock = std::chrono::steady_clock;

 public:
  explicit watchdog(std::chrono::seconds patience) : patience_{patience} {}

  /// Calls work(), which `what` describes; several threads may.
  template <class Work>
  void watch(std::string what, Work work) {
    auto const key = begin(std::move(what));
    work();
    auto const lock = std::scoped_lock{mutex_};
    watched_.erase(key);
  }

 private:
  int begin(std::string what) {
    auto const lock = std::scoped_lock{mutex_};
    watched_[++last_] = {std::move(what), clock::now()};
    return last_;
  }
  void guard(std::stop_token const& stop) {
    auto lock = std::unique_lock{mutex_};
    while (!changed_.wait_for(lock, stop, std::chrono::seconds{1}, [] { return false; }) &&
           !stop.stop_requested())
      for (auto const& [key, of] : watched_)
        if (clock::now() > of.second + patience_) {
          std::fprintf(stderr, "it hangs: %s\n", of.first.c_str());
          std::abort();
        }
  }

  std::chrono::seconds patience_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<int, std::pair<std::string, clock::time_point>> watched_;
  int last_ = 0;
  std::jthread guard_{[this](std::stop_token const& stop) { guard(stop); }};  // last: it uses all
};

}  // namespace support
