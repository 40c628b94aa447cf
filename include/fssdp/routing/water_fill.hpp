// SPDX-License-Identifier: Apache-2.0
/// Pours tokens into the emptiest places.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace fssdp::detail {

/// Where something can be poured: how full it is, and what has been poured.
struct vessel {
  std::uint64_t level = 0;
  std::uint64_t poured = 0;
  std::uint32_t number = 0;  ///< the caller's; of equally full ones the lower comes first
};

/// Pours so that the fullest of those that get any is as low as can be: all of them are then
/// equally full, up to one. Leaves them by (level before, number).
/// @pre there are vessels, unless there is nothing to pour; all together times their number is below
///      2^64
/// @cost O(k log k), no allocation
inline void water_fill(std::span<vessel> vessels, std::uint64_t amount) {
  std::ranges::sort(vessels, [](vessel const& a, vessel const& b) {
    return a.level != b.level ? a.level < b.level : a.number < b.number;
  });
  auto wet = std::size_t{0};
  auto volume = amount;  // of all that is in the vessels that get any
  while (wet < vessels.size() && (wet == 0 || vessels[wet].level * wet < volume)) {
    volume += vessels[wet].level;
    ++wet;
  }
  if (wet == 0) return;
  auto const surface = volume / wet;
  auto const higher = volume % wet;  // so many stand one higher
  for (std::size_t i = 0; i < wet; ++i)
    vessels[i].poured = surface + (i < higher ? 1 : 0) - vessels[i].level;
  for (auto i = wet; i < vessels.size(); ++i) vessels[i].poured = 0;
}

}  // namespace fssdp::detail
