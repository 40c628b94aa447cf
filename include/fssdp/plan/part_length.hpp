// SPDX-License-Identifier: Apache-2.0
/// Cuts blocks of different lengths into parts that can be scheduled as equal ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

namespace fssdp::detail {

/// The number of parts of a given length that a block is cut into.
[[nodiscard]] inline std::size_t parts_of_length(std::size_t elements, std::size_t length) {
  return std::max<std::size_t>(1, elements / length + (elements % length == 0 ? 0 : 1));
}

/// The length of the parts. Parts are scheduled as if all had this length: it is the largest one
/// that counts few elements too many, or else the one that counts fewest.
/// @param least blocks of this length or shorter are not cut
[[nodiscard]] inline std::size_t part_length(std::span<std::size_t const> blocks,
                                             std::size_t least) {
  constexpr auto most_cuts = std::size_t{32};
  constexpr auto allowed = 1.05;  // scheduled elements over real ones
  auto longest = std::size_t{0};
  auto all = 0.0;
  for (auto const elements : blocks) {
    longest = std::max(longest, elements);
    all += static_cast<double>(elements);
  }
  auto best = std::max<std::size_t>(1, longest);
  auto fewest = std::numeric_limits<double>::infinity();
  for (std::size_t cuts = 1; cuts <= most_cuts; ++cuts) {
    auto const length = longest / cuts + (longest % cuts == 0 ? 0 : 1);
    if (cuts > 1 && length < least) break;
    auto counted = 0.0;
    for (auto const elements : blocks)
      counted +=
          static_cast<double>(parts_of_length(elements, std::max<std::size_t>(1, length)) * length);
    if (counted >= fewest) continue;
    fewest = counted;
    best = std::max<std::size_t>(1, length);
    if (counted <= allowed * all) break;
  }
  return best;
}

}  // namespace fssdp::detail
