// SPDX-License-Identifier: Apache-2.0
/// The owners of items, and how full that makes ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/layout/table_layout.hpp"
#include "fssdp/solver/owned_item.hpp"

namespace fssdp {

/// The result of an ownership_planner.
struct ownership_plan {
  std::vector<rank_id> owners = {};  ///< [items]
  int ranks = 1;

  /// How full the fullest rank or interface is, as defined by ownership_planner; 1 is its fair
  /// share.
  double fullness = 0;
  double bound = 0;               ///< a lower bound of fullness for any owners
  owned_item most = {};           ///< the largest bytes, step cost and load of any rank
  std::uint64_t moved_bytes = 0;  ///< of items whose owner changes
  std::size_t moved_items = 0;
  std::uint64_t forced_bytes = 0;  ///< of items that constraints force to move
  std::size_t near_sets = 0;       ///< sets of `near` that are on one node

  [[nodiscard]] rank_id owner(item_id item) const { return owners[item.index()]; }
  /// A layout of all items, in their order, as experts of one slice each.
  [[nodiscard]] table_layout layout() const { return {{.ranks = ranks}, owners}; }
  /// A layout of some items, in this order. Items of one shape need a layout and buffers of their
  /// own, as all experts of a layout have equal tensors in buffers, plans and collectives.
  /// @pre there is at least one item
  [[nodiscard]] table_layout layout_of(std::span<item_id const> items) const {
    return layout_of(owners, items, ranks);
  }
  /// The layout of the previous owners.
  /// @pre there is at least one item; each has an owner among the ranks
  [[nodiscard]] static table_layout layout_of(std::span<rank_id const> owners,
                                              std::span<item_id const> items, int ranks) {
    auto list = std::vector<rank_id>{};
    for (auto const item : items) list.push_back(owners[item.index()]);
    return {{.ranks = ranks}, std::move(list)};
  }

  friend bool operator==(ownership_plan const&, ownership_plan const&) = default;
};

}  // namespace fssdp
