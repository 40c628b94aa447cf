// SPDX-License-Identifier: Apache-2.0
/// Predicts loads by their exponential mean.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/placement/load_predictor.hpp"
#include "fssdp/placement/loads.hpp"

namespace fssdp {

/// An exponential moving average of the loads: alpha times the newest ones plus (1 - alpha) times
/// the average before. It follows loads that change fast sooner than a load_window does.
///
/// The first loads are taken as they are, so a constant history predicts itself. It is computed in
/// integers (32 bits after the binary point, each mean rounded down there, predictions rounded up
/// to whole tokens), so that all ranks get the same numbers; no loads of 64 bits overflow.
class load_average {
 public:
  /// The weight of the newest loads, as a fraction.
  struct alpha {
    int numerator = 2;    ///< from 1 to the denominator
    int denominator = 5;  ///< at most 65,536
    friend bool operator==(alpha const&, alpha const&) = default;
  };

  /// @throws argument_error unless there is at least one expert, alpha is above 0 and at most 1, and
  ///         its denominator at most 65,536
  load_average(int experts, alpha const& newest);
  explicit load_average(int experts);

  /// Takes the loads of one iteration in.
  /// @throws argument_error on another number of experts.
  void push(std::span<std::uint64_t const> now);

  /// From now on there are so many experts; a new one begins with the mean of the others.
  /// @throws argument_error unless there is at least one.
  void resize(int experts);

  /// The loads to plan with, in tokens of one iteration; all zero before the first push.
  [[nodiscard]] expert_loads const& predict() const { return predicted_; }

  /// All that the prediction depends on, for a checkpoint: the upper and the lower half of each
  /// mean; nothing before the first push.
  [[nodiscard]] std::vector<std::uint64_t> memory() const;
  /// Goes on from a memory.
  /// @throws argument_error if it is of another number of experts, or of no average; then nothing
  ///         has changed
  void recall(std::span<std::uint64_t const> memory);

  friend bool operator==(load_average const&, load_average const&) = default;

 private:
  __extension__ typedef unsigned __int128 wide;
  static constexpr int point = 32;  // 64 + 32 bits, times 2^31 experts or a weight of 17 bits

  void round_up();

  alpha alpha_;
  bool is_new_ = true;  // no loads so far
  std::vector<wide> mean_;
  expert_loads predicted_;
};

static_assert(remembering_load_predictor<load_average>);

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/placement/load_average_inl.hpp"
#endif
