// SPDX-License-Identifier: Apache-2.0
/// Two layouts of the same chunks over the same ranks.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/cyclic_layout.hpp"
#include "support/dice.hpp"
#include "support/reversed_layout.hpp"

namespace support {

/// Where chunks are and where they are to go. Often every rank owns equally many in both, so that
/// there is no free slot anywhere; often hardly anything moves, or everything.
struct random_layouts {
  reversed_layout from;
  reversed_layout to;
  int scratch_slots = 1;

  explicit random_layouts(std::uint64_t seed) : random_layouts{dice{seed}} {}

 private:
  explicit random_layouts(dice draw) {
    auto const ranks = draw.between(1, 8);
    auto const slices = draw.chance(50) ? 1 : draw.between(1, 4);
    auto const experts = draw.between(1, 24);
    auto const blocks = fssdp::block_layout{{.experts = experts, .ranks = ranks, .slices = slices}};
    auto owners = std::vector<fssdp::rank_id>{};
    for (auto const chunk : fssdp::all_chunks(blocks)) owners.push_back(blocks.owner(chunk));
    if (draw.chance(30))
      for (auto& owner : owners) owner = fssdp::rank_id{draw.between(0, ranks - 1)};
    from = {ranks, owners, slices};
    scratch_slots = draw.between(1, 3);
    switch (draw.between(0, 3)) {
      case 0:  // the same number for everybody
        draw.shuffle(owners);
        break;
      case 1:  // everything moves one rank on
        for (auto& owner : owners) owner = fssdp::rank_id{(owner.value() + 1) % ranks};
        break;
      case 2:  // two chunks change places
        std::swap(owners[static_cast<std::size_t>(draw.between(0, experts * slices - 1))],
                  owners.front());
        break;
      default:
        for (auto& owner : owners) owner = fssdp::rank_id{draw.between(0, ranks - 1)};
    }
    to = {ranks, owners, slices};
  }
};

}  // namespace support
