// SPDX-License-Identifier: Apache-2.0
/// Any owner for any chunk.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/layout/shard_layout.hpp"

namespace fssdp {

/// Owners from a table; the slots of a rank ascend with its chunks. A rank may own any number,
/// none included.
/// @cost three numbers per chunk
class table_layout {
 public:
  struct shape {
    int ranks = 1;
    int slices = 1;  ///< that every expert is cut into
  };

  table_layout() : table_layout{shape{}, {rank_id{0}}} {}
  /// @param owners [experts * slices]: the owner of each chunk in canonical order
  /// @throws argument_error if there is no owner, or one that is no rank, or if the last expert has
  ///         too few slices
  table_layout(shape const& of, std::vector<rank_id> owners)
      : shape_{of}, owner_{std::move(owners)}, slot_(owner_.size()) {
    detail::check_shape("table_layout", 1, of.ranks, of.slices);
    detail::require(owner_.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max()),
                    "table_layout: owners of ", owner_.size(), " chunks; expected at most ",
                    std::numeric_limits<int>::max());
    auto const whole = owner_.size() % static_cast<std::size_t>(of.slices) == 0;
    detail::require(whole && !owner_.empty(), "table_layout: owners of ", owner_.size(),
                    " chunks; expected ", of.slices, " for every expert, and one expert or more");
    begin_.resize(static_cast<std::size_t>(of.ranks) + 1);
    for (auto const owner : owner_) {
      detail::require(owner.value() >= 0 && owner.value() < of.ranks, "table_layout: owner ", owner,
                      "; expected ranks from 0 to ", of.ranks - 1);
      ++begin_[owner.index() + 1];
    }
    for (std::size_t rank = 1; rank < begin_.size(); ++rank) begin_[rank] += begin_[rank - 1];
    owned_.resize(owner_.size());
    auto filled = std::vector<int>(static_cast<std::size_t>(of.ranks));
    for (auto const chunk : all_chunks(*this)) {
      auto const rank = owner(chunk).index();
      slot_[position(chunk)] = filled[rank]++;
      owned_[begin_[rank] + static_cast<std::size_t>(slot(chunk))] = chunk;
    }
  }

  [[nodiscard]] int experts() const { return static_cast<int>(owner_.size()) / slices(); }
  [[nodiscard]] int slices() const { return shape_.slices; }
  [[nodiscard]] int ranks() const { return shape_.ranks; }

  [[nodiscard]] rank_id owner(chunk_id chunk) const { return owner_[position(chunk)]; }
  [[nodiscard]] int slot(chunk_id chunk) const { return slot_[position(chunk)]; }
  /// The chunks of a rank in slot order, ascending.
  [[nodiscard]] std::span<chunk_id const> owned(rank_id rank) const {
    auto const first = begin_[rank.index()];
    return std::span{owned_}.subspan(first, begin_[rank.index() + 1] - first);
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
  std::vector<std::size_t> begin_;  // [ranks + 1]: where each rank's begin
};

static_assert(shard_layout<table_layout>);

/// The owners of any layout in a table. Its slots need not ascend with the chunks; these do.
template <shard_layout Layout>
[[nodiscard]] table_layout as_table(Layout const& layout) {
  auto owners = std::vector<rank_id>{};
  for (auto const chunk : all_chunks(layout)) owners.push_back(layout.owner(chunk));
  return {{.ranks = layout.ranks(), .slices = layout.slices()}, std::move(owners)};
}

}  // namespace fssdp
