// SPDX-License-Identifier: Apache-2.0
/// One step of a plan.
#pragma once

#include <compare>

#include "fssdp/core/chunk.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

/// In a gather `source` sends a piece of a chunk's parameters to `destination`. A reduction uses
/// the same transfer backwards: `destination` sends its partial or sum to `source`.
///
/// The canonical order is the order in time in which ports serve transfers. Rounds divide it into
/// batches for communicators that exchange one batch after the other.
struct transfer {
  int round = 0;  ///< a rank passes on a piece in a later round than it receives it
  chunk_id chunk;
  rank_id source;
  rank_id destination;
  int piece = 0;  ///< index within the chunk
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

/// The order of the sends, or the receives, of a rank in one round: by piece, then by peer.
[[nodiscard]] inline bool before_in_round(transfer const& a, transfer const& b) {
  if (a.chunk != b.chunk) return a.chunk < b.chunk;
  if (a.piece != b.piece) return a.piece < b.piece;
  return a.source != b.source ? a.source < b.source : a.destination < b.destination;
}

}  // namespace detail
}  // namespace fssdp
