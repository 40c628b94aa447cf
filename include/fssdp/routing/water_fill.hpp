// SPDX-License-Identifier: Apache-2.0
/// Distributes tokens to the places with the lowest levels.
#pragma once

#include <cstdint>
#include <span>

namespace fssdp::detail {

/// A place: its level before, and how much was added.
struct vessel {
  std::uint64_t level = 0;
  std::uint64_t poured = 0;
  std::uint32_t number = 0;  ///< set by the caller; of equal levels the lower number comes first
};

/// Distributes an amount such that the highest level among the vessels that get any is as low as
/// possible: these have equal levels, up to one. Sorts vessels by (level before, number).
/// @pre there is a vessel, unless the amount is zero; the sum of levels and amount times the number
///      of vessels is below 2^64
/// @cost O(k log k), no allocation
void water_fill(std::span<vessel> vessels, std::uint64_t amount);

}  // namespace fssdp::detail

#ifndef FSSDP_COMPILED
#include "fssdp/routing/water_fill_inl.hpp"
#endif
