// SPDX-License-Identifier: Apache-2.0
/// Which rank has which chunks, in which slots: at owners, as replicas, or both.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "fssdp/core/chunk.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/layout/shard_layout.hpp"
#include "fssdp/placement/placement.hpp"

namespace fssdp {

/// The chunks in the slots of every rank. A chunk may be on any number of ranks, also on none, and
/// a rank may have no chunks. Layouts and placements are distributions, and so are the slots of an
/// inference engine; any of them may use only some of the ranks.
class distribution {
 public:
  /// A rank that has a chunk, and the chunk's slot there.
  struct place {
    rank_id rank;
    std::size_t slot = 0;
    friend bool operator==(place const&, place const&) = default;
  };

  /// The distribution of a layout: each chunk at its owner.
  template <shard_layout Layout>
  explicit distribution(Layout const& layout)
      : distribution{layout.experts(), layout.slices(), lists_of(layout)} {}
  /// The distribution of a placement: whole experts on all ranks that hold them, ascending, as in
  /// buffers [materialized, elements].
  explicit distribution(placement const& where);
  /// Any other distribution.
  /// @param slots [ranks]: the chunk in each slot of a rank
  /// @throws argument_error if there are no experts, slices or ranks, if an expert or slice is out
  ///         of range, or if a rank has a chunk twice
  distribution(int experts, int slices, std::vector<std::vector<chunk_id>> slots);

  /// The same distribution on some ranks of a larger group; the others have no chunks.
  /// @param members [ranks()]: the rank in the group of each rank
  /// @throws argument_error unless there are ranks() members, all below `ranks` and different
  [[nodiscard]] distribution on(std::span<rank_id const> members, int ranks) const;

  [[nodiscard]] int experts() const { return experts_; }
  [[nodiscard]] int slices() const { return slices_; }
  [[nodiscard]] int ranks() const { return static_cast<int>(slots_.size()); }
  /// The chunks of a rank, in slot order.
  [[nodiscard]] std::span<chunk_id const> slots(rank_id rank) const {
    auto const& list = slots_[rank.index()];
    return {list.data(), list.size()};
  }
  /// Where a chunk is, by ascending rank.
  [[nodiscard]] std::span<place const> places(chunk_id chunk) const {
    auto const& list = places_[position(chunk)];
    return {list.data(), list.size()};
  }

  friend bool operator==(distribution const& a, distribution const& b) {
    return a.experts_ == b.experts_ && a.slices_ == b.slices_ && a.slots_ == b.slots_;
  }

 private:
  template <class Layout>
  [[nodiscard]] static std::vector<std::vector<chunk_id>> lists_of(Layout const& layout) {
    check_layout(layout);
    auto lists = std::vector<std::vector<chunk_id>>(static_cast<std::size_t>(layout.ranks()));
    for (auto const rank : first_n<rank_id>(layout.ranks()))
      for (chunk_id const chunk : layout.owned(rank)) lists[rank.index()].push_back(chunk);
    return lists;
  }
  [[nodiscard]] std::size_t position(chunk_id chunk) const {
    return chunk.expert.index() * static_cast<std::size_t>(slices_) + chunk.slice.index();
  }

  int experts_;
  int slices_;
  std::vector<std::vector<chunk_id>> slots_;  // [ranks]
  std::vector<std::vector<place>> places_;    // [chunks]
};

}  // namespace fssdp

#ifndef FSSDP_COMPILED
#include "fssdp/plan/distribution_inl.hpp"
#endif
