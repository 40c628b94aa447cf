// SPDX-License-Identifier: Apache-2.0
/// What no plan can beat.
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

/// Larger numbers of pieces are bounded a sixteenth of them at a time: there, it is not the number
/// that matters.
inline constexpr int pieces_bounded_one_by_one = 256;

}  // namespace detail

/// Lower bounds of the time of a gather.
struct time_bound {
  double seconds = 0;        ///< bytes over bandwidth, of the port that binds
  double tight_seconds = 0;  ///< with latency, what a message costs, filling and emptying
  std::string resource;      ///< what binds `seconds`: "device in 3", "node out 0", ...
};

/// Bounds for whatever realises the placement of a plan; of the plan itself only placement, owners
/// and topology matter. With B inside a node, b of an interface, C of all interfaces of a node:
///   device in   chunks that a rank is to get / (B + b)
///   device out  chunks that it owns and others get / (B + b), as each leaves at least once
///   node in     chunks that enter a node / C, as each enters at least once
///   node out    chunks that leave their owner's node / C
///   network     chunks that cross / C of all nodes
///   NVLink      what ranks of a node are to get / (B of all of them + C)
/// where one node has no b and no C. No plan that verify accepts takes less time, whichever ports
/// are the faster ones, equal or not: a chunk may enter a node more than once, straight from its
/// owner, and leave its node and come back.
///
/// Where experts differ in size, chunk_bytes are those of the most rows, and the tight bound is the
/// other one. Else it is that of pipeline_bound, for pieces of at least `least_piece_bytes` (as
/// schedule_options has it), at the best number of pieces. It holds for plans of no smaller pieces.
/// @cost O(chunks * (ranks + nodes)); the tight bound O(ranks * ranks on a node) besides, for up to
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
