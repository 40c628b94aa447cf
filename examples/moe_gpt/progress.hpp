// SPDX-License-Identifier: Apache-2.0
/// What is shown while a run goes on: a bar on a terminal, some lines elsewhere.
#pragma once

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>

#include "readable.hpp"
#include "recovery_line.hpp"
#include "report.hpp"

namespace moe_gpt {

enum class progress_style { bar, lines, silent };

/// A bar where a person watches, lines where a file or a pipe does.
[[nodiscard]] inline progress_style style_for(std::FILE* out, bool quiet) {
  if (quiet) return progress_style::silent;
  return ::isatty(::fileno(out)) == 1 ? progress_style::bar : progress_style::lines;
}

/// The figures of a step; `load` says what the two loads are.
[[nodiscard]] inline std::string progress_figures(step_record const& at, int steps,
                                                  double tokens_per_second, double seconds_left,
                                                  char const* load = "load max/mean") {
  auto const total = std::to_string(steps);
  return fmt::format("{:>{}}/{}  loss {:.3f}  {} tok/s  {} {:.2f} (EP {:.2f})  {} left", at.step,
                     total.size(), total, at.loss, readable_count(tokens_per_second), load,
                     at.load_max_over_mean, at.load_max_over_mean_ep,
                     readable_seconds(seconds_left));
}

/// A bar and the figures in at most `width` columns. In a narrow terminal the words go first, then
/// the bar.
[[nodiscard]] inline std::string progress_line(step_record const& at, int steps,
                                               double tokens_per_second, double seconds_left,
                                               std::size_t width) {
  constexpr auto frame = std::size_t{3};  // two brackets and a space
  constexpr auto least = std::size_t{6};
  auto figures = progress_figures(at, steps, tokens_per_second, seconds_left);
  if (width < figures.size() + frame + least)
    figures = progress_figures(at, steps, tokens_per_second, seconds_left, "load");
  if (width < figures.size() + frame + least) return figures.substr(0, width);
  auto const cells = std::min<std::size_t>(30, width - figures.size() - frame);
  auto const done = cells * static_cast<std::size_t>(at.step) / static_cast<std::size_t>(steps);
  return "[" + std::string(done, '#') + std::string(cells - done, '-') + "] " + figures;
}

/// Shows the steps of a run. One thread calls.
class progress {
 public:
  progress(int steps, progress_style style, std::FILE* out)
      : steps_{steps}, style_{style}, out_{out} {}
  progress(progress const&) = delete;
  progress& operator=(progress const&) = delete;
  /// Leaves the line of the bar, also when the run ends by an exception.
  ~progress() {
    if (drawn_) std::fputc('\n', out_);
  }

  void show(step_record const& at) {
    if (style_ == progress_style::silent) return;
    for (auto const& of : at.recoveries) {
      std::fputs(((drawn_ ? "\n" : "") + recovery_line(of) + "\n").c_str(), out_);
      drawn_ = false;
    }
    rate_ = rate_ == 0 ? at.tokens_per_second : 0.9 * rate_ + 0.1 * at.tokens_per_second;
    auto const now = clock::now();
    auto const spent = std::chrono::duration<double>(now - start_).count();
    auto const left = spent / ++shown_steps_ * (steps_ - at.step);
    if (style_ == progress_style::bar) {
      if (drawn_ && at.step < steps_ && now - shown_ < std::chrono::milliseconds{50}) return;
      std::fputs(("\r" + progress_line(at, steps_, rate_, left, columns()) + "\x1b[K").c_str(),
                 out_);
      drawn_ = true;
      shown_ = now;
    } else if (at.step == 1 || at.step == steps_ || at.step % std::max(1, steps_ / 10) == 0) {
      std::fputs((progress_figures(at, steps_, rate_, left) + "\n").c_str(), out_);
    }
    std::fflush(out_);
  }

 private:
  using clock = std::chrono::steady_clock;

  /// The width of the terminal; the last column stays free, or some terminals would wrap.
  [[nodiscard]] std::size_t columns() const {
    auto window = ::winsize{};
    auto const known = ::ioctl(::fileno(out_), TIOCGWINSZ, &window) == 0 && window.ws_col > 1;
    return known ? window.ws_col - std::size_t{1} : 79;
  }

  int steps_;
  progress_style style_;
  std::FILE* out_;
  double rate_ = 0;
  int shown_steps_ = 0;  // without those before the checkpoint that the run continues
  bool drawn_ = false;
  clock::time_point start_ = clock::now();
  clock::time_point shown_ = start_;
};

}  // namespace moe_gpt
