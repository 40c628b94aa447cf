// SPDX-License-Identifier: Apache-2.0
/// Predicts loads by an exponential moving average.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/placement/load_predictor.hpp"
#include "fssdp/placement/loads.hpp"

namespace fssdp {

/// An exponential moving average of the loads: alpha times the newest loads plus (1 - alpha) times
/// the previous average. It adapts to fast changes sooner than a load_window.
///
/// The first loads set the average, so constant loads predict themselves. All arithmetic is in
/// integers
/// (32 fractional bits; averages are rounded down to these, predictions up to whole tokens), so
/// that all ranks get the same numbers. No loads of 64 bits overflow.
class load_average {
 public:
  /// The weight of the newest loads, as a fraction.
  struct alpha {
    int numerator = 2;    ///< from 1 to the denominator
    int denominator = 5;  ///< at most 65,536
    friend bool operator==(alpha const&, alpha const&) = default;
  };

  /// @throws argument_error unless there is at least one expert, alpha is above 0 and at most 1,
  ///         and its denominator at most 65,536
  load_average(int experts, alpha const& newest);
  explicit load_average(int experts);

  /// Adds the loads of one iteration.
  /// @throws argument_error if there are not as many loads as experts
  void push(std::span<std::uint64_t const> now);

  /// Sets the number of experts; a new expert starts with the mean of the others.
  /// @throws argument_error if it is below 1
  void resize(int experts);

  /// The loads to plan with, in tokens of one iteration; all zero before the first push.
  [[nodiscard]] expert_loads const& predict() const { return predicted_; }

  /// The state of the average, for a checkpoint: the upper and the lower half of each mean; empty
  /// before the first push.
  [[nodiscard]] std::vector<std::uint64_t> memory() const;
  /// Restores a state that memory() returned.
  /// @throws argument_error if it is of a different number of experts, or not a state of an
  ///         average; then nothing has changed
  void recall(std::span<std::uint64_t const> memory);

  friend bool operator==(load_average const&, load_average const&) = default;

 private:
  __extension__ typedef unsigned __int128 wide;
  static constexpr int point = 32;  // 64 + 32 bits, times 2^31 experts or a weight of 17 bits

  void round_up();

  alpha alpha_;
  bool is_new_ = true;  // nothing was pushed yet
  std::vector<wide> mean_;
  expert_loads predicted_;
};

static_assert(remembering_load_predictor<load_average>);

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/placement/load_average_inl.hpp"
#endif
