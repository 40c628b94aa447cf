// SPDX-License-Identifier: Apache-2.0
/// The arithmetic of load_average.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/placement/load_average.hpp"
#include "fssdp/placement/load_predictor.hpp"

namespace fssdp {

FSSDP_INLINE load_average::load_average(int experts, alpha const& newest) : alpha_{newest} {
  detail::require(newest.numerator >= 1 && newest.numerator <= newest.denominator &&
                      newest.denominator <= 65'536,
                  "load_average: alpha is ", newest.numerator, " / ", newest.denominator,
                  "; expected more than 0 and at most 1, with a denominator of 65536 or less");
  resize(experts);
}

FSSDP_INLINE load_average::load_average(int experts) : load_average{experts, alpha{}} {}

FSSDP_INLINE void load_average::push(std::span<std::uint64_t const> now) {
  detail::require(now.size() == mean_.size(), "load_average: push of ", now.size(),
                  " loads; expected ", mean_.size(), ", one per expert");
  auto const numerator = is_new_ ? wide{1} : static_cast<wide>(alpha_.numerator);
  auto const denominator = is_new_ ? wide{1} : static_cast<wide>(alpha_.denominator);
  for (std::size_t e = 0; e < mean_.size(); ++e)
    mean_[e] =
        (mean_[e] * (denominator - numerator) + (static_cast<wide>(now[e]) << point) * numerator) /
        denominator;
  is_new_ = false;
  round_up();
}

FSSDP_INLINE void load_average::resize(int experts) {
  detail::require(experts >= 1, "load_average: ", experts, " experts; expected 1 or more");
  detail::resize_by_mean(mean_, static_cast<std::size_t>(experts));
  round_up();
}

FSSDP_INLINE std::vector<std::uint64_t> load_average::memory() const {
  auto all = std::vector<std::uint64_t>{};
  if (is_new_) return all;
  for (auto const mean : mean_)
    for (auto const shift : {64, 0}) all.push_back(static_cast<std::uint64_t>(mean >> shift));
  return all;
}

FSSDP_INLINE void load_average::recall(std::span<std::uint64_t const> memory) {
  detail::require(memory.empty() || memory.size() == 2 * mean_.size(), "load_average: recall of ",
                  memory.size(), " numbers; expected ", 2 * mean_.size(), ", or none");
  for (std::size_t i = 0; i < memory.size(); i += 2)
    detail::require(memory[i] >> point == 0,
                    "load_average: recall of a mean above 2^64 tokens; expected less");
  is_new_ = memory.empty();
  for (std::size_t e = 0; e < mean_.size(); ++e)
    mean_[e] = is_new_ ? 0 : wide{memory[2 * e]} << 64 | memory[2 * e + 1];
  round_up();
}

FSSDP_INLINE void load_average::round_up() {
  predicted_.resize(mean_.size());
  for (std::size_t e = 0; e < mean_.size(); ++e)
    predicted_[e] = static_cast<std::uint64_t>((mean_[e] + ((wide{1} << point) - 1)) >> point);
}

}  // namespace fssdp
