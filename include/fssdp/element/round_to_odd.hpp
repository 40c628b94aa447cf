// SPDX-License-Identifier: Apache-2.0
/// Rounding of doubles on their way to types of 16 or 8 bits, so that two roundings give the result
/// of one.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace fssdp::detail {

/// The nearest float towards zero, with its last bit set unless it is exact; for finite numbers
/// that are too large, the largest float, which is odd. Rounded again, to at most 22 bits, it gives
/// the same result as the double, whether overflow becomes infinity or stays finite.
[[nodiscard]] constexpr float round_to_odd(double value) {
  using limits = std::numeric_limits<float>;
  constexpr auto most = static_cast<double>(limits::max());
  constexpr auto end = std::numeric_limits<double>::max();
  if (value > most) return value <= end ? limits::max() : limits::infinity();
  if (value < -most) return value >= -end ? limits::lowest() : -limits::infinity();
  auto const nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || value != value) return nearest;
  auto const away =
      value < 0 ? static_cast<double>(nearest) < value : static_cast<double>(nearest) > value;
  auto const bits = std::bit_cast<std::uint32_t>(nearest) - (away ? 1U : 0U);
  return std::bit_cast<float>(bits | 1U);
}

}  // namespace fssdp::detail
