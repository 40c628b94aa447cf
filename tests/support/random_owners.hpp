// SPDX-License-Identifier: Apache-2.0
/// Random owners for a layout.
#pragma once

#include <cstdint>
#include <vector>

#include "fssdp/core/index.hpp"
#include "support/dice.hpp"

namespace support {

/// An owner for each chunk, the same for equal numbers. Ranks of an odd number own nothing.
[[nodiscard]] inline std::vector<fssdp::rank_id> random_owners(int chunks, int ranks) {
  auto draw = dice{static_cast<std::uint64_t>(chunks)};
  auto owners = std::vector<fssdp::rank_id>{};
  for (int chunk = 0; chunk < chunks; ++chunk)
    owners.emplace_back(draw.between(0, ranks - 1) / 2 * 2);
  return owners;
}

}  // namespace support
