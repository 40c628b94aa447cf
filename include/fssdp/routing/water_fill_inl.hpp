// SPDX-License-Identifier: Apache-2.0
/// Distributes an amount.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fssdp/core/inline.hpp"
#include "fssdp/routing/water_fill.hpp"

namespace fssdp::detail {

FSSDP_INLINE void water_fill(std::span<vessel> vessels, std::uint64_t amount) {
  std::ranges::sort(vessels, [](vessel const& a, vessel const& b) {
    return a.level != b.level ? a.level < b.level : a.number < b.number;
  });
  auto wet = std::size_t{0};
  auto volume = amount;  // the amount plus the levels of the vessels that get any
  while (wet < vessels.size() && (wet == 0 || vessels[wet].level * wet < volume)) {
    volume += vessels[wet].level;
    ++wet;
  }
  if (wet == 0) return;
  auto const surface = volume / wet;
  auto const higher = volume % wet;  // this many vessels end one higher
  for (std::size_t i = 0; i < wet; ++i)
    vessels[i].poured = surface + (i < higher ? 1 : 0) - vessels[i].level;
  for (auto i = wet; i < vessels.size(); ++i) vessels[i].poured = 0;
}

}  // namespace fssdp::detail
