// SPDX-License-Identifier: Apache-2.0
/// Which part of a list a step of a kernel belongs to.
#pragma once

#include <cstddef>

#include "fssdp/element/host_device.hpp"

namespace fssdp::detail {

/// Parts lie one after the other, part i from first[i] on. Returns the last that begins at this
/// step or before: those without steps have none.
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
