// SPDX-License-Identifier: Apache-2.0
/// Cuts the chunks of a plan into pieces and decides when each of them goes where.
#pragma once

#include <cstddef>
#include <limits>

#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp {

/// In which order a reduction adds up.
enum class reduction_order {
  along_trees,  ///< what meets is summed before it goes on: no more bytes than in the gather
  by_rank  ///< all that contribute, at the owner (rank_ordered): the same bits for every schedule
};

/// Which of several senders that become idle together chooses first what it sends, and to whom.
enum class sender_order {
  as_they_come,
  busiest_first  ///< the one with the most to send: less where most experts go to one rank only
};

/// How chunks are cut, who may help, in which order sums are formed, and how long to look for the
/// best.
struct schedule_options {
  std::size_t piece_bytes = 0;  ///< about; 0: what suits chunk, placement and topology
  /// Of a piece, unless the chunk is smaller. At 1 Gbit/s 64 KiB are better.
  std::size_t least_bytes = 256U << 10;
  /// What a rank keeps at most of pieces that it only relays, where an expert is one tensor: pieces
  /// are cut in each of them, at multiples of 256 elements, and memory_required tells what several
  /// take. 0: nobody relays.
  std::size_t relay_bytes = std::numeric_limits<std::size_t>::max();
  reduction_order sums = reduction_order::along_trees;
  sender_order senders = sender_order::as_they_come;
  /// Other cuts are tried as long as all tries together have no more transfers; 0: one try, a
  /// coarse one that is planned fast.
  std::size_t effort = 10'000;
  friend bool operator==(schedule_options const&, schedule_options const&) = default;
};

/// The same placement realised piece by piece: trees that emerge from a simulation of the gather on
/// the plan's topology (late_binding), so that ports have something to send whenever they can.
///
/// Every chunk is cut into the same number of pieces. Each crosses between nodes on one rail and
/// enters a node once; ranks on its way may relay it. What the trees of the given plan were does
/// not matter. Where the ports of the topology are such that chunks straight from their owners take
/// less time (tiny chunks; interfaces as fast as ports inside a node; unequal ports), they go that
/// way: whole, or cut into pieces one after the other if `piece_bytes` asks for them.
/// @param chunk_bytes of the largest chunk, as it travels
/// @pre verify accepts the plan
/// @post verify accepts the result; no rank keeps more than `relay_bytes` of what it relays; all
///       goes straight from owners, or between nodes a piece crosses as often as there are other
///       nodes that hold its expert; by `simulate` it takes no longer than `rank_ordered(plan)`, or
///       than that cut into as many pieces if `piece_bytes` asks for them. By rank, that holds for
///       gathers; reductions go by `rank_ordered(plan)`
/// @cost a pure function of its arguments; time linear in the transfers that it tries, and on
///       hundreds of nodes in pieces * nodes besides; some 180 bytes per transfer. Every piece
///       finds a way of its own, so each of its transfers is recorded
/// @throws argument_error if there are no bytes, or more pieces or transfers than can be counted
[[nodiscard]] transfer_plan schedule(transfer_plan const& plan, std::size_t chunk_bytes,
                                     schedule_options const& options = {});

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/plan/schedule_inl.hpp"
#endif
