// SPDX-License-Identifier: Apache-2.0
/// Parts of fixed length, whose loops compilers vectorize (also g++ at -O2).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace fssdp::detail {

/// The number of elements that are processed together, on the stack.
inline constexpr std::size_t part_elements = 64;
using float_part = std::array<float, part_elements>;

/// The elements from index `first` on, padded.
/// @pre first <= all.size()
[[nodiscard]] inline float_part part_from(std::span<float const> all, std::size_t first,
                                          float filler = 0) {
  auto part = float_part{};
  auto const rest = all.subspan(first);
  if (rest.size() >= part_elements) {
    std::ranges::copy(rest.first<part_elements>(), part.begin());
    return part;
  }
  part.fill(filler);
  std::ranges::copy(rest, part.begin());
  return part;
}
/// Writes the elements for which there is room.
inline void put_part(float_part const& part, std::span<float> all, std::size_t first) {
  auto const rest = all.subspan(first);
  if (rest.size() >= part_elements)
    std::ranges::copy(part, rest.begin());
  else
    std::copy_n(part.begin(), rest.size(), rest.begin());
}

}  // namespace fssdp::detail
