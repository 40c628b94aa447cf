// SPDX-License-Identifier: Apache-2.0
/// A layout with any owner for any chunk.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/layout/shard_layout.hpp"

namespace fssdp {

/// Owners from a table; the slots of a rank ascend with its chunks. A rank may own any number of
/// chunks, also none.
/// @cost three numbers per chunk
class table_layout {
 public:
  struct shape {
    int ranks = 1;
    int slices = 1;  ///< that every expert is cut into
  };

  table_layout() : table_layout{shape{}, {rank_id{0}}} {}
  /// @param owners [experts * slices]: the owner of each chunk in canonical order
  /// @throws argument_error if there are no owners, an owner is not a rank, or the number of owners
  ///         is not a multiple of `slices`
  table_layout(shape const& of, std::vector<rank_id> owners);

  [[nodiscard]] int experts() const { return static_cast<int>(owner_.size()) / slices(); }
  [[nodiscard]] int slices() const { return shape_.slices; }
  [[nodiscard]] int ranks() const { return shape_.ranks; }

  [[nodiscard]] rank_id owner(chunk_id chunk) const { return owner_[position(chunk)]; }
  [[nodiscard]] int slot(chunk_id chunk) const { return slot_[position(chunk)]; }
  /// The chunks of a rank in slot order, ascending.
  [[nodiscard]] std::span<chunk_id const> owned(rank_id rank) const {
    auto const first = begin_[rank.index()];
    return {owned_.data() + first, begin_[rank.index() + 1] - first};
  }

  friend bool operator==(table_layout const& a, table_layout const& b) {
    return a.ranks() == b.ranks() && a.slices() == b.slices() && a.owner_ == b.owner_;
  }

 private:
  [[nodiscard]] std::size_t position(chunk_id chunk) const {
    return chunk.expert.index() * static_cast<std::size_t>(slices()) + chunk.slice.index();
  }

  shape shape_;
  std::vector<rank_id> owner_;      // [chunks]
  std::vector<int> slot_;           // [chunks]
  std::vector<chunk_id> owned_;     // rank by rank, in slot order
  std::vector<std::size_t> begin_;  // [ranks + 1]: where the chunks of each rank begin
};

static_assert(shard_layout<table_layout>);

/// The owners of any layout as a table. Its slots ascend with the chunks, even if the layout's do
/// not.
template <shard_layout Layout>
[[nodiscard]] table_layout as_table(Layout const& layout) {
  auto owners = std::vector<rank_id>{};
  for (auto const chunk : all_chunks(layout)) owners.push_back(layout.owner(chunk));
  return {{.ranks = layout.ranks(), .slices = layout.slices()}, std::move(owners)};
}

namespace detail {

/// The same for callers that need owners only; a table is returned as it is.
template <shard_layout Layout>
[[nodiscard]] decltype(auto) owner_table(Layout const& layout) {
  if constexpr (std::same_as<Layout, table_layout>)
    return (layout);
  else
    return as_table(layout);
}

}  // namespace detail
}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/layout/table_layout_inl.hpp"
#endif
