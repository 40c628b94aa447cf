// SPDX-License-Identifier: Apache-2.0
/// Owners for items, and what that means for the fullest rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/layout/table_layout.hpp"
#include "fssdp/solver/owned_item.hpp"

namespace fssdp {

/// What an ownership_planner has found.
struct ownership_plan {
  std::vector<rank_id> owners = {};  ///< [items]
  int ranks = 1;

  /// What is owned by the fullest place (rank or interface) over what would be fair, as
  /// ownership_planner says.
  double fullness = 0;
  double bound = 0;               ///< no owners at all have a lower fullness
  owned_item most = {};           ///< the most bytes on a rank; the most step cost; the most load
  std::uint64_t moved_bytes = 0;  ///< of items that have another owner than before
  std::size_t moved_items = 0;
  std::uint64_t forced_bytes = 0;  ///< what had to move from where constraints forbid it to stay
  std::size_t near_sets = 0;       ///< sets of `near` that are on one node

  [[nodiscard]] rank_id owner(item_id item) const { return owners[item.index()]; }
  /// The items as experts, in their order, each of one slice.
  [[nodiscard]] table_layout layout() const { return {{.ranks = ranks}, owners}; }
  /// The same of some items, in this order: those of one shape, as buffers, plans and collectives
  /// have experts of equal tensors. Items of other shapes have a layout and buffers of their own.
  /// @pre there is an item
  [[nodiscard]] table_layout layout_of(std::span<item_id const> items) const {
    return layout_of(owners, items, ranks);
  }
  /// The layout of owners of before.
  /// @pre there is an item; each has an owner among the ranks
  [[nodiscard]] static table_layout layout_of(std::span<rank_id const> owners,
                                              std::span<item_id const> items, int ranks) {
    auto list = std::vector<rank_id>{};
    for (auto const item : items) list.push_back(owners[item.index()]);
    return {{.ranks = ranks}, std::move(list)};
  }

  friend bool operator==(ownership_plan const&, ownership_plan const&) = default;
};

}  // namespace fssdp
