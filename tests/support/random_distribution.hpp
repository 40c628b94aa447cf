// SPDX-License-Identifier: Apache-2.0
/// Distributions of any kind.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "fssdp/plan/distribution.hpp"
#include "support/dice.hpp"

namespace support {

/// Any distribution: owners of slices, replicas of whole experts, on all ranks or on some.
/// @param is_source all chunks are somewhere
[[nodiscard]] inline fssdp::distribution random_distribution(dice& draw, int experts, int ranks,
                                                             bool is_source) {
  auto const slices = draw.chance(50) ? 1 : draw.between(1, 4);
  auto slots = std::vector<std::vector<fssdp::chunk_id>>(static_cast<std::size_t>(ranks));
  auto const first = draw.between(0, ranks - 1);  // from this rank on they take part
  auto const extra = draw.chance(50) ? 0 : draw.between(5, 60);
  for (auto const chunk : fssdp::chunk_range{0, experts * slices, slices}) {
    auto const owner = draw.between(first, ranks - 1);
    for (int rank = first; rank < ranks; ++rank)
      if ((rank == owner && (is_source || draw.chance(90))) || draw.chance(extra))
        slots[static_cast<std::size_t>(rank)].push_back(chunk);
  }
  for (auto& list : slots) draw.shuffle(list);
  return {experts, slices, std::move(slots)};
}

}  // namespace support
