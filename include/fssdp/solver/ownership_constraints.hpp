// SPDX-License-Identifier: Apache-2.0
/// What owners have to respect whatever it costs, and what they may respect for free.
#pragma once

#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/solver/owned_item.hpp"

namespace fssdp {

/// Sets of items and what is asked of their owners. All but `near` holds, or a plan is refused. An
/// item may be in any number of them.
struct ownership_constraints {
  using item_set = std::vector<item_id>;
  struct choice {
    item_id item;
    std::vector<rank_id> ranks;
  };

  std::vector<item_set> together = {};  ///< one rank owns all items of a set
  std::vector<item_set> apart = {};     ///< no rank owns two items of a set
  std::vector<choice> on_ranks = {};    ///< one of these ranks owns the item
  item_set same_node = {};              ///< each stays on the node where its owner was before
  std::vector<item_set> near = {};      ///< on one node, as far as that costs nothing
};

}  // namespace fssdp
