// SPDX-License-Identifier: Apache-2.0
/// Predicts loads by their exponential mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/core/error.hpp"
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
  load_average(int experts, alpha const& newest) : alpha_{newest} {
    detail::require(newest.numerator >= 1 && newest.numerator <= newest.denominator &&
                        newest.denominator <= 65'536,
                    "load_average: alpha is ", newest.numerator, " / ", newest.denominator,
                    "; expected more than 0 and at most 1, with a denominator of 65536 or less");
    resize(experts);
  }
  explicit load_average(int experts) : load_average{experts, alpha{}} {}

  /// Takes the loads of one iteration in.
  /// @throws argument_error on another number of experts.
  void push(std::span<std::uint64_t const> now) {
    detail::require(now.size() == mean_.size(), "load_average: loads of ", now.size(),
                    " experts; expected ", mean_.size());
    auto const numerator = is_new_ ? wide{1} : static_cast<wide>(alpha_.numerator);
    auto const denominator = is_new_ ? wide{1} : static_cast<wide>(alpha_.denominator);
    for (std::size_t e = 0; e < mean_.size(); ++e)
      mean_[e] = (mean_[e] * (denominator - numerator) +
                  (static_cast<wide>(now[e]) << point) * numerator) /
                 denominator;
    is_new_ = false;
    round_up();
  }

  /// From now on there are so many experts; a new one begins with the mean of the others.
  /// @throws argument_error unless there is at least one.
  void resize(int experts) {
    detail::require(experts >= 1, "load_average: ", experts, " experts; expected 1 or more");
    detail::resize_by_mean(mean_, static_cast<std::size_t>(experts));
    round_up();
  }

  /// The loads to plan with, in tokens of one iteration; all zero before the first push.
  [[nodiscard]] expert_loads const& predict() const { return predicted_; }

  /// All that the prediction depends on, for a checkpoint: the upper and the lower half of each
  /// mean; nothing before the first push.
  [[nodiscard]] std::vector<std::uint64_t> memory() const {
    auto all = std::vector<std::uint64_t>{};
    if (is_new_) return all;
    for (auto const mean : mean_)
      for (auto const shift : {64, 0}) all.push_back(static_cast<std::uint64_t>(mean >> shift));
    return all;
  }
  /// Goes on from a memory.
  /// @throws argument_error if it is of another number of experts, or of no average; then nothing
  ///         has changed
  void recall(std::span<std::uint64_t const> memory) {
    detail::require(memory.empty() || memory.size() == 2 * mean_.size(),
                    "load_average: a memory of ", memory.size(), " numbers; expected ",
                    2 * mean_.size(), ", or none");
    for (std::size_t i = 0; i < memory.size(); i += 2)
      detail::require(memory[i] >> point == 0, "load_average: a mean of over 2^64 tokens");
    is_new_ = memory.empty();
    for (std::size_t e = 0; e < mean_.size(); ++e)
      mean_[e] = is_new_ ? 0 : wide{memory[2 * e]} << 64 | memory[2 * e + 1];
    round_up();
  }

  friend bool operator==(load_average const&, load_average const&) = default;

 private:
  __extension__ typedef unsigned __int128 wide;
  static constexpr int point = 32;  // 64 + 32 bits, times 2^31 experts or a weight of 17 bits

  void round_up() {
    predicted_.resize(mean_.size());
    for (std::size_t e = 0; e < mean_.size(); ++e)
      predicted_[e] = static_cast<std::uint64_t>((mean_[e] + ((wide{1} << point) - 1)) >> point);
  }

  alpha alpha_;
  bool is_new_ = true;  // no loads so far
  std::vector<wide> mean_;
  expert_loads predicted_;
};

static_assert(remembering_load_predictor<load_average>);

}  // namespace fssdp
