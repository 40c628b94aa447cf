// SPDX-License-Identifier: Apache-2.0
/// One step of a plan.
#pragma once

#include <compare>

#include "fssdp/core/chunk.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp {

/// In a gather `source` sends the chunk's parameters to `destination`; a reduction reads the same
/// line backwards: `destination` sends its gradient sum to `source`. Canonical order: round first.
struct transfer {
  int round = 0;  ///< a rank can pass on in round r what reached it in a round before r
  chunk_id chunk;
  rank_id source;
  rank_id destination;
  friend auto operator<=>(transfer const&, transfer const&) = default;
};

}  // namespace fssdp
