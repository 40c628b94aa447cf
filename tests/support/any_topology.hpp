// SPDX-License-Identifier: Apache-2.0
/// A placement on a topology of any kind, and plans of any kind for it, all from one seed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fssdp/plan/make_plan.hpp"
#include "support/dice.hpp"
#include "support/random_instance.hpp"

namespace support {

/// A topology with links inside nodes that are faster, slower or as fast as interfaces, with ports
/// that are all equal or all different, and messages that cost nothing, what is usual, or very
/// much.
[[nodiscard]] inline fssdp::topology any_ports(fssdp::topology const& of, dice& draw) {
  auto const speed = [&](int least, int most) {  // from 10^least to 10^most bytes per second
    return std::pow(10.0, least + (most - least) * draw.between(0, 1000) / 1000.0);
  };
  auto usual = fssdp::port_bandwidth{};
  switch (draw.between(0, 3)) {
    case 0:
      break;
    case 1:  // PCIe, and one interface or two that are faster
      usual = {12e9, draw.chance(50) ? 25e9 : 50e9};
      break;
    case 2:
      usual.between_bytes_per_second = usual.inside_bytes_per_second;
      break;
    default:
      usual = {speed(8, 12), speed(8, 12)};
  }
  auto const same_ports = draw.chance(50);
  auto const apart = draw.chance(20);  // as far as it goes
  auto node_of = std::vector<fssdp::node_id>{};
  auto ports = std::vector<fssdp::port_bandwidth>{};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.ranks())) {
    node_of.push_back(of.node(rank));
    if (same_ports)
      ports.push_back(usual);
    else if (apart)
      ports.push_back({speed(3, 15), speed(3, 15)});
    else
      ports.push_back({usual.inside_bytes_per_second * draw.between(1, 4),
                       usual.between_bytes_per_second * draw.between(1, 4)});
  }
  auto const price = [&](double seconds) {
    return draw.chance(30) ? 0 : draw.chance(20) ? 1e6 * seconds : seconds * draw.between(1, 20);
  };
  auto const cost = draw.chance(25) ? fssdp::message_cost{0, 0, 0}
                    : draw.chance(33)
                        ? fssdp::message_cost{}
                        : fssdp::message_cost{price(1e-6), price(3e-6), price(0.25e-6)};
  return fssdp::topology{node_of, ports, of.network(), cost};
}

/// Every piece takes a way of its own, over ranks that hold the expert and some that only relay it.
[[nodiscard]] inline fssdp::transfer_plan any_trees(fssdp::transfer_plan const& of, int pieces,
                                                    dice& draw) {
  struct place {
    fssdp::rank_id rank;
    int depth;
  };
  auto transfers = std::vector<fssdp::transfer>{};
  auto const relay_percent = draw.one_of(std::vector{0, 20, 50});
  for (auto const chunk : fssdp::chunk_range{0, of.experts() * of.slices(), of.slices()})
    for (int piece = 0; piece < pieces; ++piece) {
      auto missing = std::vector<fssdp::rank_id>{};
      for (auto const rank : of.where().holders(chunk.expert))
        if (rank != of.owner(chunk)) missing.push_back(rank);
      draw.shuffle(missing);
      auto idle = std::vector<fssdp::rank_id>{};
      for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.ranks()))
        if (!of.where().holds(rank, chunk.expert) && rank != of.owner(chunk)) idle.push_back(rank);
      draw.shuffle(idle);
      auto places = std::vector<place>{{of.owner(chunk), 0}};
      auto const send = [&](place const& from, fssdp::rank_id to) {
        transfers.push_back({from.depth, chunk, from.rank, to, piece, 0});
        places.push_back({to, from.depth + 1});
      };
      for (auto const rank : missing) {
        auto from = draw.one_of(places);
        if (!idle.empty() && draw.chance(relay_percent)) {
          send(from, idle.back());
          idle.pop_back();
          from = places.back();
        }
        send(from, rank);
      }
    }
  // Some order in which nobody passes on what it does not have: by depth, or piece by piece.
  auto const by_depth = draw.chance(50);
  draw.shuffle(transfers);
  std::ranges::stable_sort(transfers, {}, [&](fssdp::transfer const& t) {
    return std::pair{by_depth ? 0 : t.piece, t.round};
  });
  for (std::size_t i = 0; i < transfers.size(); ++i) transfers[i].order = static_cast<int>(i);
  return of.realised_by(std::move(transfers), pieces);
}

/// Small, so that many of them are different.
struct any_topology {
  random_instance of;
  fssdp::topology topo;
  fssdp::transfer_plan base;  ///< what make_plan says
  std::size_t chunk_bytes;
  int pieces;
  fssdp::transfer_plan trees;  ///< any, in so many pieces

  explicit any_topology(std::uint64_t seed, size_limits const& limits = {.ranks = 9,
                                                                         .nodes = 4,
                                                                         .experts = 9,
                                                                         .slices = 2})
      : any_topology{seed, limits, dice{seed + 99}} {}

 private:
  any_topology(std::uint64_t seed, size_limits const& limits, dice draw)
      : of{seed, limits},
        topo{any_ports(of.topo, draw)},
        base{make_plan(of.layout, of.where, topo)},
        chunk_bytes{draw.chance(10)   ? std::size_t{1} << draw.between(0, 40)
                    : draw.chance(50) ? 48'000'000
                                      : static_cast<std::size_t>(draw.between(1, 3'000'000))},
        pieces{draw.between(1, 6)},
        trees{any_trees(base, pieces, draw)} {}
};

}  // namespace support
