// SPDX-License-Identifier: Apache-2.0
/// In how many pieces chunks may be cut.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fssdp/plan/schedule.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp::detail {

/// The number of pieces of this size in a chunk; the last may be shorter.
[[nodiscard]] constexpr std::size_t pieces_of(std::size_t chunk_bytes, std::size_t piece_bytes) {
  return chunk_bytes / piece_bytes + (chunk_bytes % piece_bytes == 0 ? 0 : 1);
}

/// Numbers of pieces per chunk, in the order in which they are tried.
struct possible_cuts {
  int coarse = 1;          ///< one for each rail of a node, or four; rarely far from the best
  std::vector<int> fewer;  ///< for many chunks, which keep all ports busy without being cut
  std::vector<int> more;   ///< for few and large chunks; first those that use all rails alike

  possible_cuts(topology const& topo, std::size_t chunk_bytes, schedule_options const& options) {
    auto const most = static_cast<int>(std::clamp<std::size_t>(
        chunk_bytes / std::max<std::size_t>(1, options.least_bytes), 1, most_pieces));
    coarse = std::min(std::max(rails_of(topo), 4), most);
    for (auto pieces = coarse / 2; pieces > 0; pieces /= 2) fewer.push_back(pieces);
    for (auto const halves : {4, 6, 8, 12, 16, 3}) {
      auto const pieces = std::int64_t{coarse} * halves / 2;
      if (pieces > coarse && pieces <= most) more.push_back(static_cast<int>(pieces));
    }
  }

 private:
  [[nodiscard]] static int rails_of(topology const& topo) {
    if (topo.nodes() == 1 || topo.network() != network_interface::per_rank) return 1;
    return static_cast<int>(topo.ranks_on(node_id{0}).size());
  }
};

}  // namespace fssdp::detail
