// SPDX-License-Identifier: Apache-2.0
/// The n-th smallest of many magnitudes.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace fssdp::detail {

/// The n-th smallest of floats without sign, counted from 0; NaN counts as larger than infinity.
/// @param scratch as many floats; overwritten; may be `magnitudes` itself
/// @pre n < magnitudes.size(), and no sign bit is set
/// @cost for 1024 or more: a histogram by exponent and 3 more bits; only elements in the bin of the
///       result are sorted
[[nodiscard]] inline float nth_magnitude(std::span<float const> magnitudes, std::size_t n,
                                         std::span<float> scratch) {
  constexpr auto least_counted = std::size_t{1024};
  auto const bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  auto const bin = [&](float x) { return bits(x) >> 20U; };
  auto candidates = magnitudes.size();
  if (candidates < least_counted) {
    if (scratch.data() != magnitudes.data()) std::ranges::copy(magnitudes, scratch.begin());
  } else {
    auto counts = std::array<std::size_t, 2048>{};
    for (auto const x : magnitudes) ++counts[bin(x)];
    auto wanted = std::uint32_t{0};
    for (; counts[wanted] <= n; ++wanted) n -= counts[wanted];
    candidates = 0;
    for (auto const x : magnitudes) {
      scratch[candidates] = x;
      candidates += bin(x) == wanted ? 1 : 0;
    }
  }
  auto const at = scratch.begin() + static_cast<std::ptrdiff_t>(n);
  std::ranges::nth_element(scratch.first(candidates), at, {}, bits);
  return *at;
}

}  // namespace fssdp::detail
