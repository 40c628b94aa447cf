// SPDX-License-Identifier: Apache-2.0
/// Predicts loads by the mean of the last iterations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/placement/load_predictor.hpp"
#include "fssdp/placement/loads.hpp"

namespace fssdp {

/// The mean of the last loads, rounded up to whole tokens. All arithmetic is in integers, so that
/// all ranks get the same numbers. (Paper: of the last 5.)
/// @pre the sums are below 2^64
class load_window {
 public:
  /// @throws argument_error unless there is at least one expert and the window has at least length
  ///         1
  explicit load_window(int experts, int length = 5);

  /// Adds the loads of one iteration, and removes those that leave the window.
  /// @throws argument_error if there are not as many loads as experts
  void push(std::span<std::uint64_t const> now);

  /// Sets the number of experts; a new expert gets, for each iteration of the window, the mean load
  /// of the others, rounded up.
  /// @cost O(experts * length)
  /// @throws argument_error if it is below 1
  void resize(int experts);

  /// The loads to plan with, in tokens of one iteration; all zero before the first push.
  [[nodiscard]] expert_loads const& predict() const { return predicted_; }

  /// The state of the window, for a checkpoint: [iterations, experts], the oldest first.
  [[nodiscard]] std::vector<std::uint64_t> memory() const;
  /// Restores a state that memory() returned; of a longer window, its last iterations.
  /// @throws argument_error if it is of a different number of experts; then nothing has changed
  void recall(std::span<std::uint64_t const> memory);

  friend bool operator==(load_window const&, load_window const&) = default;

 private:
  void round_up();

  expert_loads sum_;
  std::vector<expert_loads> recent_;
  std::size_t next_ = 0;
  std::size_t count_ = 0;  // iterations in the window
  expert_loads predicted_;
};

static_assert(remembering_load_predictor<load_window>);

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/placement/load_window_inl.hpp"
#endif
