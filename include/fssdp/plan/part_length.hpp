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

/// The length of the parts. Parts are scheduled as if all had this length, so that a length which
/// does not divide the blocks counts elements that are not there; and each part is a message, which
/// costs as much as a quarter of `least` elements. The lengths from that of the longest block down to
/// `least` are tried: the first one that counts few elements too many, or else the cheapest.
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
  auto lowest = std::numeric_limits<double>::infinity();
  for (std::size_t cuts = 1; cuts <= most_cuts; ++cuts) {
    auto const length = longest / cuts + (longest % cuts == 0 ? 0 : 1);
    if (cuts > 1 && length < least) break;
    auto parts = 0.0;
    for (auto const elements : blocks)
      parts += static_cast<double>(parts_of_length(elements, std::max<std::size_t>(1, length)));
    auto const counted = parts * static_cast<double>(length);
    auto const price = counted + parts * static_cast<double>(least) / 4;
    if (price >= lowest) continue;
    lowest = price;
    best = std::max<std::size_t>(1, length);
    if (counted <= allowed * all) break;
  }
  return best;
}

}  // namespace fssdp::detail
