// SPDX-License-Identifier: Apache-2.0
/// A double on its way to a type of 16 bits or 8: rounding twice must not differ from rounding
/// once.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace fssdp::detail {

/// The float next to a double towards zero, with its last bit set unless it is exact: of a finite
/// one that is too large, the largest, which is odd. Rounded once more, to at most 22 bits, it
/// gives what the double would have given, whether what is too large becomes infinity or stays
/// finite.
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
