// SPDX-License-Identifier: Apache-2.0
/// A random topology and loads of several layers, from one seed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/topology/topology.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"

namespace support {

/// What a sharding solver is asked. Edges are frequent: one layer, one expert, one rank, nodes of
/// different sizes, fewer experts than ranks, idle layers, loads near the end of 64 bits.
struct random_layers {
  fssdp::topology topo;
  std::vector<fssdp::expert_loads> loads;  ///< [layers] of [experts]
  int overlap;                             ///< from 0 to one more than there are experts

  explicit random_layers(std::uint64_t seed) : random_layers{dice{seed}} {}

 private:
  explicit random_layers(dice draw)
      : topo{random_topology(draw)},
        loads{random_loads(draw)},
        overlap{draw.between(0, static_cast<int>(loads.front().size()) + 1)} {}

  static fssdp::topology random_topology(dice& draw) {
    auto const ranks = draw.between(1, 12);
    auto const nodes = draw.between(1, std::min(4, ranks));
    if (draw.chance(40)) return fssdp::topology{{.nodes = nodes, .ranks = ranks}};
    auto node_of = std::vector<fssdp::node_id>{};  // of any size, in any order
    for (int rank = 0; rank < ranks; ++rank)
      node_of.emplace_back(rank < nodes ? rank : draw.between(0, nodes - 1));
    draw.shuffle(node_of);
    return fssdp::topology{node_of};
  }

  static std::vector<fssdp::expert_loads> random_loads(dice& draw) {
    constexpr auto end = std::numeric_limits<std::uint64_t>::max();
    auto const layers = draw.chance(20) ? 1 : draw.between(1, 6);
    auto const experts = draw.between(1, draw.chance(50) ? 4 : 16);
    auto const huge = draw.chance(20);
    auto loads = std::vector<fssdp::expert_loads>(static_cast<std::size_t>(layers));
    for (auto& layer : loads) {
      auto const kind = draw.between(0, 4);
      for (int expert = 0; expert < experts; ++expert) {
        auto const any = static_cast<std::uint64_t>(draw.between(0, 100000));
        layer.push_back(huge        ? end - any * (end / 200000)
                        : kind == 0 ? 0
                        : kind == 1 ? any % 4
                        : kind == 2 ? std::uint64_t{1} << any % 41
                                    : any);
      }
    }
    return loads;
  }
};

/// Calls law(layers) for many seeds; a failure prints the seed.
template <class Law>
void for_random_layers(Law law) {
  for (auto seed = std::uint64_t{1}; seed <= std::uint64_t{law_instances}; ++seed) {
    CAPTURE(seed);
    law(random_layers{seed});
  }
}

}  // namespace support
