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

/// The mean of all loads, where each iteration weighs less than the one behind it: the newest part
/// / of, all before it together the rest. Follows loads that move fast sooner than a load_window.
///
/// On the scale of one iteration: a constant history predicts itself, from its first loads on.
/// Integers (32 bits behind the point, each mean rounded down there, predictions rounded up to
/// whole tokens), so that a prediction is the same everywhere; no loads of 64 bits overflow.
class load_average {
 public:
  /// How much the newest loads count.
  struct weight {
    int part = 2;  ///< from 1 to `of`
    int of = 5;    ///< at most 65,536
    friend bool operator==(weight const&, weight const&) = default;
  };

  /// @throws argument_error unless there is at least one expert and 1 <= part <= of <= 65,536.
  load_average(int experts, weight const& newest) : newest_{newest} {
    detail::require(newest.part >= 1 && newest.part <= newest.of && newest.of <= 65'536,
                    "load_average: the newest loads weigh ", newest.part, " / ", newest.of,
                    "; expected more than 0 and at most 1, in parts of 65536 or fewer");
    resize(experts);
  }
  explicit load_average(int experts) : load_average{experts, weight{}} {}

  /// Takes the loads of one iteration in.
  /// @throws argument_error on another number of experts.
  void push(std::span<std::uint64_t const> now) {
    detail::require(now.size() == mean_.size(), "load_average: loads of ", now.size(),
                    " experts; expected ", mean_.size());
    auto const part = is_new_ ? wide{1} : static_cast<wide>(newest_.part);
    auto const of = is_new_ ? wide{1} : static_cast<wide>(newest_.of);
    for (std::size_t e = 0; e < mean_.size(); ++e)
      mean_[e] = (mean_[e] * (of - part) + (static_cast<wide>(now[e]) << point) * part) / of;
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

  /// All that the prediction depends on, for a checkpoint: the upper and the lower half of each mean;
  /// nothing before the first push.
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

  weight newest_;
  bool is_new_ = true;  // no loads so far
  std::vector<wide> mean_;
  expert_loads predicted_;
};

static_assert(remembering_load_predictor<load_average>);

}  // namespace fssdp
