// SPDX-License-Identifier: Apache-2.0
/// Pouring once more, one token after the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace support {

/// What each of these levels gets if every token goes to the lowest; of equally low ones to that
/// which was lowest before, then to the first.
[[nodiscard]] inline std::vector<std::uint64_t> naive_pour(std::vector<std::uint64_t> const& before,
                                                           std::uint64_t tokens) {
  auto order = std::vector<std::size_t>(before.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return before[i]; });
  auto level = before;
  for (; tokens != 0; --tokens)
    ++level[*std::ranges::min_element(order, {}, [&](std::size_t i) { return level[i]; })];
  for (std::size_t i = 0; i < level.size(); ++i) level[i] -= before[i];
  return level;
}

}  // namespace support
