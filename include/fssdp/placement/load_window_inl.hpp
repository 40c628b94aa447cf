// SPDX-License-Identifier: Apache-2.0
/// The arithmetic of load_window.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/placement/load_predictor.hpp"
#include "fssdp/placement/load_window.hpp"
#include "fssdp/placement/loads.hpp"

namespace fssdp {

FSSDP_INLINE load_window::load_window(int experts, int length) {
  detail::require(experts >= 1, "load_window: ", experts, " experts; expected 1 or more");
  detail::require(length >= 1, "load_window: length is ", length, "; expected 1 or more");
  sum_.resize(static_cast<std::size_t>(experts));
  recent_.resize(static_cast<std::size_t>(length), sum_);
  round_up();
}

FSSDP_INLINE void load_window::push(std::span<std::uint64_t const> now) {
  detail::require(now.size() == sum_.size(), "load_window: push of ", now.size(),
                  " loads; expected ", sum_.size(), ", one per expert");
  auto& oldest = recent_[next_];
  for (std::size_t e = 0; e < sum_.size(); ++e) {
    sum_[e] += now[e] - oldest[e];
    oldest[e] = now[e];
  }
  next_ = (next_ + 1) % recent_.size();
  count_ = std::min(count_ + 1, recent_.size());
  round_up();
}

FSSDP_INLINE void load_window::resize(int experts) {
  detail::require(experts >= 1, "load_window: ", experts, " experts; expected 1 or more");
  sum_.assign(static_cast<std::size_t>(experts), 0);
  for (auto& loads : recent_) {
    detail::resize_by_mean(loads, sum_.size());
    for (std::size_t e = 0; e < sum_.size(); ++e) sum_[e] += loads[e];
  }
  round_up();
}

FSSDP_INLINE std::vector<std::uint64_t> load_window::memory() const {
  auto all = std::vector<std::uint64_t>{};
  auto const length = recent_.size();
  for (std::size_t i = 0; i < count_; ++i) {
    auto const& loads = recent_[(next_ + length - count_ + i) % length];
    all.insert(all.end(), loads.begin(), loads.end());
  }
  return all;
}

FSSDP_INLINE void load_window::recall(std::span<std::uint64_t const> memory) {
  auto const experts = sum_.size();
  detail::require(memory.size() % experts == 0, "load_window: recall of ", memory.size(),
                  " numbers; expected ", experts, " for each iteration");
  *this = load_window{static_cast<int>(experts), static_cast<int>(recent_.size())};
  for (; !memory.empty(); memory = memory.subspan(experts)) push(memory.first(experts));
}

FSSDP_INLINE void load_window::round_up() {
  auto const count = std::max<std::uint64_t>(1, count_);
  predicted_.resize(sum_.size());
  for (std::size_t e = 0; e < sum_.size(); ++e)
    predicted_[e] = sum_[e] / count + (sum_[e] % count != 0 ? 1 : 0);
}

}  // namespace fssdp
