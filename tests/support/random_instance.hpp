// SPDX-License-Identifier: Apache-2.0
/// A random topology, layout, loads, placement and plan, all from one seed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/cyclic_layout.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "fssdp/solver/owners_only.hpp"
#include "fssdp/solver/sparse_materialization.hpp"
#include "fssdp/topology/topology.hpp"
#include "support/dice.hpp"
#include "support/reversed_layout.hpp"

namespace support {

/// How large random instances get.
struct size_limits {
  int ranks = 16;
  int nodes = 4;
  int experts = 64;
  int slices = 4;
};

/// Of chunks for which latency does not matter, so that pieces and relays are what is quickest.
inline constexpr auto large_chunk_bytes = std::size_t{48'000'000};

/// Everything a law is about. Edges are frequent: one rank, one node, one expert, no load, idle
/// ranks, ranks that own nothing.
struct random_instance {
  fssdp::topology topo;
  reversed_layout layout;
  fssdp::expert_loads loads;
  fssdp::sparse_materialization solve;
  fssdp::placement where;
  std::vector<std::size_t> elements;  ///< of each tensor of an expert
  fssdp::transfer_plan plan;          ///< direct, node-aware, or scheduled piece by piece

  explicit random_instance(std::uint64_t seed, size_limits const& limits = {})
      : random_instance{dice{seed}, limits} {}

 private:
  random_instance(dice draw, size_limits const& limits)
      : topo{random_topology(draw, limits)},
        layout{random_layout(draw, topo.ranks(), limits)},
        loads{random_loads(draw, layout.experts())},
        solve{random_solver(draw, topo, layout)},
        where{random_placement(draw)},
        elements{random_elements(draw)},
        plan{random_plan(draw)} {}

  /// Nodes in any order, of any size.
  static fssdp::topology random_topology(dice& draw, size_limits const& limits) {
    auto const ranks = draw.between(1, limits.ranks);
    auto const nodes = draw.between(1, std::min(limits.nodes, ranks));
    auto const network =
        draw.chance(50) ? fssdp::network_interface::per_rank : fssdp::network_interface::per_node;
    if (draw.chance(50))
      return fssdp::topology{{.nodes = nodes, .ranks = ranks, .network = network}};
    auto node_of = std::vector<fssdp::node_id>{};
    for (int rank = 0; rank < ranks; ++rank)
      node_of.emplace_back(rank < nodes ? rank : draw.between(0, nodes - 1));
    draw.shuffle(node_of);
    return fssdp::topology{node_of, {{}}, network};
  }

  static reversed_layout random_layout(dice& draw, int ranks, size_limits const& limits) {
    auto const experts = draw.between(1, draw.chance(50) ? 8 : limits.experts);
    auto const slices = draw.chance(50) ? 1 : draw.between(1, limits.slices);
    auto const blocks = fssdp::block_layout{{.experts = experts, .ranks = ranks, .slices = slices}};
    auto const deal = fssdp::cyclic_layout{{.experts = experts, .ranks = ranks, .slices = slices}};
    auto const kind = draw.between(0, 3);
    auto owners = std::vector<fssdp::rank_id>{};
    for (auto const chunk : fssdp::all_chunks(blocks))
      owners.push_back(kind == 0   ? blocks.owner(chunk)
                       : kind == 1 ? deal.owner(chunk)
                                   : fssdp::rank_id{draw.between(0, ranks - 1)});
    return {ranks, std::move(owners), slices};
  }

  static fssdp::expert_loads random_loads(dice& draw, int experts) {
    auto loads = fssdp::expert_loads(static_cast<std::size_t>(experts));
    switch (draw.between(0, 4)) {
      case 0:
        break;  // nobody has anything to do
      case 1:
        loads[static_cast<std::size_t>(draw.between(0, experts - 1))] = 1000;
        break;
      case 2:  // skewed
        for (auto& load : loads) load = std::uint64_t{1} << draw.between(0, 40);
        break;
      case 3:  // many equal ones
        for (auto& load : loads) load = static_cast<std::uint64_t>(draw.between(0, 3));
        break;
      default:
        for (auto& load : loads) load = static_cast<std::uint64_t>(draw.between(0, 100000));
    }
    return loads;
  }

  static fssdp::sparse_materialization random_solver(dice& draw, fssdp::topology const& topo,
                                                     reversed_layout const& layout) {
    auto const most = draw.chance(50) ? 4 : layout.experts() + 1;
    return {
        .overlap = draw.between(0, most), .spare_slots = draw.between(0, most), .topology = topo};
  }

  [[nodiscard]] fssdp::placement random_placement(dice& draw) const {
    switch (draw.between(0, 5)) {
      case 0:
        return fssdp::owners_only{}(loads, layout);
      case 1:
        return fssdp::everywhere{}(layout);
      case 2:
        return solve(loads, layout);
      default:
        break;
    }
    auto random = fssdp::placement{layout};
    auto const percent = draw.between(1, 60);
    for (auto const expert : fssdp::first_n<fssdp::expert_id>(layout.experts()))
      for (auto const rank : fssdp::first_n<fssdp::rank_id>(layout.ranks()))
        if (draw.chance(percent)) random.add(expert, rank);
    return random;
  }

  /// Small most often; some are large enough for several pieces.
  static std::vector<std::size_t> random_elements(dice& draw) {
    auto sizes = std::vector<std::size_t>(static_cast<std::size_t>(draw.between(1, 3)));
    auto const large = draw.chance(5);
    for (auto& size : sizes)
      size = static_cast<std::size_t>(large ? draw.between(1, 1500) : draw.between(1, 5));
    return sizes;
  }

  /// Scheduled seldom, as such plans have many rounds; more often where pieces have elements.
  [[nodiscard]] fssdp::transfer_plan random_plan(dice& draw) const {
    if (draw.chance(25)) return make_plan(layout, where);
    auto const whole = make_plan(layout, where, topo);
    if (!draw.chance(elements.front() > fssdp::piece_granularity ? 70 : 15)) return whole;
    auto const bytes = large_chunk_bytes;
    auto const pieces = static_cast<std::size_t>(draw.between(1, 3));
    return schedule(whole, bytes,
                    {.piece_bytes = (bytes + pieces - 1) / pieces,
                     .relay_bytes = draw.chance(80)   ? bytes * 1000
                                    : draw.chance(50) ? bytes
                                                      : 0});
  }
};

}  // namespace support
