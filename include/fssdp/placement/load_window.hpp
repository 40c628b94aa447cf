// SPDX-License-Identifier: Apache-2.0
/// Predicts loads from those of the last iterations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/placement/load_predictor.hpp"
#include "fssdp/placement/loads.hpp"

namespace fssdp {

/// The mean of the last loads, rounded up to whole tokens: integers, so that a prediction is the
/// same everywhere. (Paper: of the last 5.)
/// @pre the sums are below 2^64
class load_window {
 public:
  /// @throws argument_error unless there is at least one expert and the window is at least 1.
  explicit load_window(int experts, int length = 5);

  /// Takes the loads of one iteration in, and those that fall out of the window away.
  /// @throws argument_error on another number of experts.
  void push(std::span<std::uint64_t const> now);

  /// From now on there are so many experts; a new one has had, in each iteration of the window, the
  /// mean load of the others, rounded up.
  /// @cost O(experts * length)
  /// @throws argument_error unless there is at least one.
  void resize(int experts);

  /// The loads to plan with, in tokens of one iteration; all zero before the first push.
  [[nodiscard]] expert_loads const& predict() const { return predicted_; }

  /// All that the prediction depends on, [iterations, experts], the oldest first: for a checkpoint.
  [[nodiscard]] std::vector<std::uint64_t> memory() const;
  /// Goes on from a memory: of a longer window from the end of it.
  /// @throws argument_error if it is of another number of experts; then nothing has changed
  void recall(std::span<std::uint64_t const> memory);

  friend bool operator==(load_window const&, load_window const&) = default;

 private:
  void round_up();

  expert_loads sum_;
  std::vector<expert_loads> recent_;
  std::size_t next_ = 0;
  std::size_t count_ = 0;  // of iterations in the window
  expert_loads predicted_;
};

static_assert(remembering_load_predictor<load_window>);

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/placement/load_window_inl.hpp"
#endif
