// SPDX-License-Identifier: Apache-2.0
/// Constraints on owners.
#pragma once

#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/solver/owned_item.hpp"

namespace fssdp {

/// Sets of items with conditions on their owners. All conditions but `near` are hard: if they
/// cannot hold, there is an error. An item may be in any number of sets.
struct ownership_constraints {
  using item_set = std::vector<item_id>;
  struct choice {
    item_id item;
    std::vector<rank_id> ranks;
  };

  std::vector<item_set> together = {};  ///< one rank owns all items of a set
  std::vector<item_set> apart = {};     ///< no rank owns two items of a set
  std::vector<choice> on_ranks = {};    ///< one of these ranks owns the item
  item_set same_node = {};              ///< each item stays on the node of its previous owner
  std::vector<item_set> near = {};      ///< preferably on one node; never at a higher cost
};

}  // namespace fssdp
