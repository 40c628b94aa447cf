// SPDX-License-Identifier: Apache-2.0
/// Finds the part of a list to which a step of a kernel belongs.
#pragma once

#include <cstddef>

#include "fssdp/element/host_device.hpp"

namespace fssdp::detail {

/// Parts are contiguous; part i begins at first[i]. Returns the last part that begins at this step
/// or before. (Parts without steps are never returned.)
/// @pre 1 <= count, and first[0] <= step
template <class Step>
[[nodiscard]] FSSDP_HOST_DEVICE std::size_t part_of(Step const* first, std::size_t count,
                                                    std::size_t step) {
  auto low = std::size_t{0};
  for (auto high = count; high - low > 1;) {
    auto const middle = (low + high) / 2;
    if (first[middle] <= step)
      low = middle;
    else
      high = middle;
  }
  return low;
}

}  // namespace fssdp::detail
