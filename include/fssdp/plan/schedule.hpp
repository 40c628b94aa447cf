// SPDX-License-Identifier: Apache-2.0
/// Cuts the chunks of a plan into pieces, and decides when each of them is sent where.
#pragma once

#include <cstddef>
#include <limits>

#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

/// The order in which a reduction adds.
enum class reduction_order {
  along_trees,  ///< ranks that relay add before they send: no more bytes than in the gather
  by_rank       ///< the owner adds all partials (rank_ordered): the same bits for every schedule
};

/// Which of several senders that become idle together first chooses what it sends, and to whom.
enum class sender_order {
  as_they_come,
  busiest_first  ///< the one with most to send: better where most experts go to one rank only
};

/// How chunks are cut, which ranks may relay, how sums are formed, and how long to search.
struct schedule_options {
  /// Approximate; 0: chosen by simulation for chunk, placement and topology. Over sockets, where all
  /// messages in flight share a link, shorter pieces are better than that: 64 KiB at 1 Gbit/s,
  /// or a 64th of a chunk if that is more.
  std::size_t piece_bytes = 0;
  /// The smallest size of a piece, unless the chunk is smaller. At 1 Gbit/s 64 KiB is better.
  std::size_t least_bytes = 256U << 10;
  /// The most bytes that a rank stores of pieces that it only relays, where an expert is one
  /// tensor. Pieces are cut in each tensor, at multiples of 256 elements; memory_required says how
  /// much several tensors take. 0: no relays.
  std::size_t relay_bytes = std::numeric_limits<std::size_t>::max();
  reduction_order sums = reduction_order::along_trees;
  sender_order senders = sender_order::as_they_come;
  /// Cuts other than a coarse one are tried, which have fewer than this many transfers together; 0:
  /// only the coarse one, which is planned fast.
  std::size_t effort = 30'000;
  friend bool operator==(schedule_options const&, schedule_options const&) = default;
};

/// The same placement, realised piece by piece: along trees that result from a simulation of the
/// gather on the plan's topology (late_binding), which keeps all ports busy where it can.
///
/// Every chunk is cut into the same number of pieces. Each crosses between nodes on one rail and
/// enters a node once; ranks on its way may relay it. The trees of the given plan do not matter.
/// Where direct transfers from owners take less time on this topology (tiny chunks; interfaces as
/// fast as ports inside a node; unequal ports), the result has these: of whole chunks, or of pieces
/// if `piece_bytes` asks for them.
/// @param chunk_bytes of the largest chunk, as it travels
/// @pre verify accepts the plan
/// @post verify accepts the result; no rank stores more than `relay_bytes` of pieces that it
///       relays. Between nodes a piece crosses once for each other node that holds its expert, or
///       all transfers are from owners. By `simulate`, it takes no longer than
///       `rank_ordered(plan)`, or than that cut into as many pieces if `piece_bytes` asks for them.
///       With reduction_order::by_rank this holds for gathers; reductions go by
///       `rank_ordered(plan)`
/// @cost a pure function of its arguments; time linear in the transfers that it tries and, on
///       hundreds of nodes, in pieces * nodes; about 180 bytes per transfer. Every piece has its
///       own tree, so each of its transfers is stored
/// @throws argument_error if chunk_bytes is 0, or there are too many pieces or transfers to count
[[nodiscard]] transfer_plan schedule(transfer_plan const& plan, std::size_t chunk_bytes,
                                     schedule_options const& options = {});

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/plan/schedule_inl.hpp"
#endif
