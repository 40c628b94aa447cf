// SPDX-License-Identifier: Apache-2.0
/// One step of a plan.
#pragma once

#include <compare>
#include <tuple>

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
  friend auto operator<=>(transfer const& a, transfer const& b) { return a.key() <=> b.key(); }
  friend bool operator==(transfer const& a, transfer const& b) { return a.key() == b.key(); }

 private:
  [[nodiscard]] std::tuple<int, int, piece_id, rank_id, rank_id> key() const {
    return {order, round, what(), source, destination};
  }
};

}  // namespace fssdp
