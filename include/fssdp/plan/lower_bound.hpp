// SPDX-License-Identifier: Apache-2.0
/// Lower bounds of the time of any plan.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>

#include "fssdp/core/chunk.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/plan/gather_volume.hpp"
#include "fssdp/plan/pipeline_bound.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

namespace detail {

/// Up to this number of pieces the bound is computed for each number; above, for ranges that grow
/// by a sixteenth, as the exact number hardly matters there.
inline constexpr int pieces_bounded_one_by_one = 256;

}  // namespace detail

/// Lower bounds of the time of a gather.
struct time_bound {
  double seconds = 0;        ///< bytes over bandwidth, of the bottleneck port
  double tight_seconds = 0;  ///< with latency, overhead per message, filling and emptying
  std::string resource;      ///< the bottleneck of `seconds`: "device in 3", "node out 0", ...
};

/// Lower bounds for any plan of the placement; of the given plan only placement, owners and
/// topology are used. Let B be the bandwidth inside a node, b that of an interface, C that of all
/// interfaces of a node:
///   device in   chunks that a rank gets / (B + b)
///   device out  chunks that it owns and others get / (B + b), as each leaves at least once
///   node in     chunks that enter a node / C, as each enters at least once
///   node out    chunks that leave their owner's node / C
///   network     chunks that cross / C of all nodes
///   NVLink      chunks that the ranks of a node get / (B of all of them + C)
/// With one node there is no b and no C. The bounds hold for every plan that verify accepts and for
/// any ratio of bandwidths: also for plans in which a chunk enters a node more than once, directly
/// from its owner, or leaves its node and comes back.
///
/// Where experts differ in size, chunk_bytes is the size of the largest, and the tight bound equals
/// the simple one. Otherwise the tight bound is that of pipeline_bound with the best number of
/// pieces of at least `least_piece_bytes` (as in schedule_options); it holds for plans without
/// smaller pieces.
/// @cost O(chunks * (ranks + nodes)); for the tight bound also O(ranks * ranks on a node) for up to
///       256 numbers of pieces and 90 ranges of larger ones
[[nodiscard]] inline time_bound lower_bound(transfer_plan const& plan, std::size_t chunk_bytes,
                                            std::size_t least_piece_bytes = 256U << 10) {
  auto const& topo = plan.topology();
  auto const volume = detail::gather_volume{plan};
  auto const bytes =
      static_cast<double>(chunk_bytes) / static_cast<double>(plan.most_rows());  // of a row
  auto result = time_bound{};
  auto const consider = [&](double seconds, auto const&... name) {
    if (seconds > result.seconds) {
      result.seconds = seconds;
      result.resource = detail::text(name...);
    }
  };
  auto const many = topo.nodes() > 1;
  auto network = 0.0;
  for (auto const node : first_n<node_id>(topo.nodes())) {
    auto const interfaces = node_bandwidth(topo, node);
    auto inside = 0.0;
    auto wanted = detail::gather_volume::amount{0};
    for (auto const rank : topo.ranks_on(node)) {
      auto const between = topo.port(topo.interface_of(rank)).between_bytes_per_second;
      auto const port = topo.port(rank).inside_bytes_per_second;
      auto const both = port + (many ? between : 0.0);
      consider(static_cast<double>(volume.into_rank[rank.index()]) * bytes / both, "device in ",
               rank);
      consider(static_cast<double>(volume.out_of_rank[rank.index()].all) * bytes / both,
               "device out ", rank);
      inside += port;
      wanted += volume.into_rank[rank.index()];
    }
    consider(static_cast<double>(volume.into_node[node.index()]) * bytes / interfaces, "node in ",
             node);
    consider(static_cast<double>(volume.out_of_node[node.index()]) * bytes / interfaces,
             "node out ", node);
    consider(static_cast<double>(wanted) * bytes / (inside + (many ? interfaces : 0.0)), "NVLink ",
             node);
    network += interfaces;
  }
  consider(static_cast<double>(volume.between_nodes) * bytes / network, "network");
  if (plan.has_rows()) {
    result.tight_seconds = result.seconds;
    return result;
  }

  result.tight_seconds = std::numeric_limits<double>::infinity();
  auto const most = static_cast<int>(std::clamp<std::size_t>(
      chunk_bytes / std::max<std::size_t>(1, least_piece_bytes), 1, most_pieces));
  for (int pieces = 1; pieces <= most;) {
    auto const last =
        pieces < detail::pieces_bounded_one_by_one ? pieces : std::min(most, pieces + pieces / 16);
    auto const of_pieces = detail::pipeline_bound{topo, volume, bytes, {pieces, last}};
    result.tight_seconds = std::min(result.tight_seconds, of_pieces.seconds(result.tight_seconds));
    pieces = last + 1;
  }
  result.tight_seconds = std::max(result.tight_seconds, result.seconds);
  return result;
}

}  // namespace fssdp
