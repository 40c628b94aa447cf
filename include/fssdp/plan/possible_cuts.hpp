// SPDX-License-Identifier: Apache-2.0
/// In how many pieces chunks may be cut.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "fssdp/plan/schedule.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp::detail {

/// The number of pieces of this size in a chunk; the last may be shorter.
[[nodiscard]] constexpr std::size_t pieces_of(std::size_t chunk_bytes, std::size_t piece_bytes) {
  return chunk_bytes / piece_bytes + (chunk_bytes % piece_bytes == 0 ? 0 : 1);
}

/// Numbers of pieces per chunk, in the order in which they are worth trying.
struct possible_cuts {
  int coarse = 1;          ///< one or more for each rail of a node; rarely far from the best
  std::vector<int> fewer;  ///< for many chunks, which keep all ports busy without being cut
  std::vector<int> more;   ///< for few and large chunks; multiples, which use all rails alike

  possible_cuts(topology const& topo, std::size_t chunk_bytes, schedule_options const& options) {
    auto const most = static_cast<int>(std::clamp<std::size_t>(
        chunk_bytes / std::max<std::size_t>(1, options.least_bytes), 1, most_pieces));
    coarse = std::min(std::max(rails_of(topo), 4), most);
    for (int pieces = 1; pieces < coarse; pieces *= 2) fewer.push_back(pieces);
    auto const three_quarters = coarse / 4 * 3;
    if (three_quarters > 0) fewer.push_back(three_quarters);
    for (auto const times : {2, 3, 4, 6, 8})
      if (coarse <= most / times) more.push_back(times * coarse);
  }

 private:
  [[nodiscard]] static int rails_of(topology const& topo) {
    if (topo.nodes() == 1 || topo.network() != network_interface::per_rank) return 1;
    return static_cast<int>(topo.ranks_on(node_id{0}).size());
  }
};

}  // namespace fssdp::detail
