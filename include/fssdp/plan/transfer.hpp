// SPDX-License-Identifier: Apache-2.0
/// One step of a plan.
#pragma once

#include <compare>

#include "fssdp/core/chunk.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

/// In a gather `source` sends a piece of a chunk's parameters to `destination`; a reduction reads
/// the same line backwards: `destination` sends its gradient sum to `source`.
///
/// Canonical order is that of time, in which ports serve them. Rounds cut it into batches for
/// communicators that exchange one batch after the other.
struct transfer {
  int round = 0;  ///< a rank can pass on in round r what reached it in a round before r
  chunk_id chunk;
  rank_id source;
  rank_id destination;
  int piece = 0;  ///< of the chunk
  int order = 0;  ///< ports serve lower ones first

  [[nodiscard]] piece_id what() const { return {chunk, piece}; }
  friend std::strong_ordering operator<=>(transfer const& a, transfer const& b) {
    if (a.order != b.order) return a.order <=> b.order;
    if (a.round != b.round) return a.round <=> b.round;
    if (a.chunk != b.chunk) return a.chunk <=> b.chunk;
    if (a.piece != b.piece) return a.piece <=> b.piece;
    if (a.source != b.source) return a.source <=> b.source;
    return a.destination <=> b.destination;
  }
  friend bool operator==(transfer const& a, transfer const& b) { return (a <=> b) == 0; }
};

namespace detail {

/// The order of what a rank sends, or receives, in one round: by piece and peer.
[[nodiscard]] inline bool before_in_round(transfer const& a, transfer const& b) {
  if (a.chunk != b.chunk) return a.chunk < b.chunk;
  if (a.piece != b.piece) return a.piece < b.piece;
  return a.source != b.source ? a.source < b.source : a.destination < b.destination;
}

}  // namespace detail
}  // namespace fssdp
