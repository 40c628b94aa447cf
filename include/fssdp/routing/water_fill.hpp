// SPDX-License-Identifier: Apache-2.0
/// Pours tokens into the emptiest places.
#pragma once

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
void water_fill(std::span<vessel> vessels, std::uint64_t amount);

}  // namespace fssdp::detail

#ifndef FSSDP_COMPILED
#include "fssdp/routing/water_fill_inl.hpp"
#endif
