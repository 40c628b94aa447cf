// SPDX-License-Identifier: Apache-2.0
/// Predicts loads from those of the last iterations.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/placement/load_predictor.hpp"
#include "fssdp/placement/loads.hpp"

namespace fssdp {

/// The mean of the last loads, rounded up to whole tokens: integers, so that a prediction is the
/// same everywhere. (Paper: of the last 5.)
/// @pre the sums are below 2^64
class load_window {
 public:
  /// @throws argument_error unless there is at least one expert and the window is at least 1.
  explicit load_window(int experts, int length = 5) {
    detail::require(experts >= 1, "load_window: ", experts, " experts; expected 1 or more");
    detail::require(length >= 1, "load_window: length ", length, "; expected 1 or more");
    sum_.resize(static_cast<std::size_t>(experts));
    recent_.resize(static_cast<std::size_t>(length), sum_);
    round_up();
  }

  /// Takes the loads of one iteration in, and those that fall out of the window away.
  /// @throws argument_error on another number of experts.
  void push(std::span<std::uint64_t const> now) {
    detail::require(now.size() == sum_.size(), "load_window: loads of ", now.size(),
                    " experts; expected ", sum_.size());
    auto& oldest = recent_[next_];
    for (std::size_t e = 0; e < sum_.size(); ++e) {
      sum_[e] += now[e] - oldest[e];
      oldest[e] = now[e];
    }
    next_ = (next_ + 1) % recent_.size();
    count_ = std::min(count_ + 1, recent_.size());
    round_up();
  }

  /// From now on there are so many experts; a new one has had, in each iteration of the window, the
  /// mean load of the others, rounded up.
  /// @cost O(experts * length)
  /// @throws argument_error unless there is at least one.
  void resize(int experts) {
    detail::require(experts >= 1, "load_window: ", experts, " experts; expected 1 or more");
    sum_.assign(static_cast<std::size_t>(experts), 0);
    for (auto& loads : recent_) {
      detail::resize_by_mean(loads, sum_.size());
      for (std::size_t e = 0; e < sum_.size(); ++e) sum_[e] += loads[e];
    }
    round_up();
  }

  /// The loads to plan with, in tokens of one iteration; all zero before the first push.
  [[nodiscard]] expert_loads const& predict() const { return predicted_; }

  /// All that the prediction depends on, [iterations, experts], the oldest first: for a checkpoint.
  [[nodiscard]] std::vector<std::uint64_t> memory() const {
    auto all = std::vector<std::uint64_t>{};
    auto const length = recent_.size();
    for (std::size_t i = 0; i < count_; ++i) {
      auto const& loads = recent_[(next_ + length - count_ + i) % length];
      all.insert(all.end(), loads.begin(), loads.end());
    }
    return all;
  }
  /// Goes on from a memory: of a longer window from the end of it.
  /// @throws argument_error if it is of another number of experts; then nothing has changed
  void recall(std::span<std::uint64_t const> memory) {
    auto const experts = sum_.size();
    detail::require(memory.size() % experts == 0, "load_window: a memory of ", memory.size(),
                    " numbers; expected ", experts, " for each iteration");
    *this = load_window{static_cast<int>(experts), static_cast<int>(recent_.size())};
    for (; !memory.empty(); memory = memory.subspan(experts)) push(memory.first(experts));
  }

  friend bool operator==(load_window const&, load_window const&) = default;

 private:
  void round_up() {
    auto const count = std::max<std::uint64_t>(1, count_);
    predicted_.resize(sum_.size());
    for (std::size_t e = 0; e < sum_.size(); ++e)
      predicted_[e] = sum_[e] / count + (sum_[e] % count != 0 ? 1 : 0);
  }

  expert_loads sum_;
  std::vector<expert_loads> recent_;
  std::size_t next_ = 0;
  std::size_t count_ = 0;  // of iterations in the window
  expert_loads predicted_;
};

static_assert(remembering_load_predictor<load_window>);

}  // namespace fssdp
