// SPDX-License-Identifier: Apache-2.0
/// A bar on a terminal, for work that takes long.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace sim {

/// Writes to stderr if that is a terminal, at most ten times a second; else not at all.
class progress {
 public:
  explicit progress(std::size_t steps)
      : steps_{std::max<std::size_t>(steps, 1)}, shown_{::isatty(::fileno(stderr)) == 1} {}
  ~progress() { clear(); }
  progress(progress const&) = delete;
  progress& operator=(progress const&) = delete;

  void step(std::string_view what) {
    ++done_;
    auto const now = std::chrono::steady_clock::now();
    if (!shown_ || now - last_ < std::chrono::milliseconds{100}) return;
    last_ = now;
    constexpr auto width = std::size_t{30};
    auto const filled = std::min(width, width * done_ / steps_);
    auto const line =
        fmt::format("\r[{:#<{}}{:.<{}}] {:3}%  {:<60.60}", "", filled, "", width - filled,
                    std::min<std::size_t>(100, 100 * done_ / steps_), what);
    std::fputs(line.c_str(), stderr);
    drawn_ = true;
  }
  /// Takes the bar away, so that something else can be printed.
  void clear() {
    if (drawn_) std::fputs("\r\x1b[K", stderr);
    drawn_ = false;
  }

 private:
  std::size_t steps_;
  std::size_t done_ = 0;
  bool shown_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_ = {};
};

}  // namespace sim
