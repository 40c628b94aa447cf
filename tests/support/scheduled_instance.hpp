// SPDX-License-Identifier: Apache-2.0
/// A random topology with prices, a placement on it and its schedule, all from one seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "fssdp/plan/schedule.hpp"
#include "support/random_instance.hpp"

namespace support {

/// Options that ask for anything: any cut, any room for relays, and also none.
struct scheduled_instance {
  random_instance of;
  bool same_ports;  ///< of all ranks
  fssdp::topology topo;
  fssdp::transfer_plan base;  ///< node-aware, of whole chunks
  std::size_t chunk_bytes;
  fssdp::schedule_options options;
  fssdp::transfer_plan plan;

  explicit scheduled_instance(std::uint64_t seed, size_limits const& limits = {})
      : scheduled_instance{seed, limits, dice{seed + 77}} {}

 private:
  scheduled_instance(std::uint64_t seed, size_limits const& limits, dice draw)
      : of{seed, limits},
        same_ports{draw.chance(75)},
        topo{priced(draw)},
        base{make_plan(of.layout, of.where, topo)},
        chunk_bytes{static_cast<std::size_t>(draw.between(1, draw.chance(20) ? 10 : 3'000'000))},
        options{random_options(draw)},
        plan{schedule(base, chunk_bytes, options)} {}

  [[nodiscard]] fssdp::topology priced(dice& draw) const {
    auto node_of = std::vector<fssdp::node_id>{};
    auto ports = std::vector<fssdp::port_bandwidth>{};
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.topo.ranks())) {
      node_of.push_back(of.topo.node(rank));
      if (ports.empty() || !same_ports)
        ports.push_back({draw.between(1, 4) * 100e9, draw.between(1, 4) * 25e9});
    }
    return fssdp::topology{
        node_of,
        ports,
        of.topo.network(),
        {draw.between(0, 20) * 1e-6, draw.between(0, 40) * 1e-6, draw.between(0, 4) * 0.25e-6}};
  }

  [[nodiscard]] fssdp::schedule_options random_options(dice& draw) const {
    auto asked = fssdp::schedule_options{.least_bytes = 20'000, .effort = 2000};
    if (draw.chance(50))
      asked.piece_bytes = chunk_bytes / static_cast<std::size_t>(draw.between(1, 9)) + 1;
    if (draw.chance(30))
      asked.relay_bytes =
          draw.chance(50) ? 0 : static_cast<std::size_t>(draw.between(0, 1'000'000));
    return asked;
  }
};

/// Tries a law on instances of the seeds 1, 2, ...; a failure prints the seed.
template <class Law>
void for_schedules(int count, Law law, size_limits const& limits = {}) {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(count); ++seed) {
    CAPTURE(seed);
    law(scheduled_instance{seed, limits});
  }
}

}  // namespace support
