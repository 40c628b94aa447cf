// SPDX-License-Identifier: Apache-2.0
/// A layout that the library does not know: any owner for any chunk, slots in descending order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/layout/shard_layout.hpp"

namespace support {

/// Owners by table. The slots of a rank run against the order of its chunks. That exposes code
/// which takes "ascending chunk" for "next slot".
class reversed_layout {
 public:
  reversed_layout() : reversed_layout{1, {fssdp::rank_id{0}}} {}
  /// `owners` has one for each chunk in canonical order.
  reversed_layout(int ranks, std::vector<fssdp::rank_id> owners, int slices = 1)
      : slices_{slices}, owner_{std::move(owners)}, owned_(static_cast<std::size_t>(ranks)) {
    for (auto const chunk : fssdp::all_chunks(*this)) {
      auto& mine = owned_[owner(chunk).index()];
      mine.insert(mine.begin(), chunk);
    }
  }

  [[nodiscard]] int experts() const { return static_cast<int>(owner_.size()) / slices_; }
  [[nodiscard]] int slices() const { return slices_; }
  [[nodiscard]] int ranks() const { return static_cast<int>(owned_.size()); }
  [[nodiscard]] fssdp::rank_id owner(fssdp::chunk_id chunk) const {
    return owner_[chunk.expert.index() * static_cast<std::size_t>(slices_) + chunk.slice.index()];
  }
  [[nodiscard]] int slot(fssdp::chunk_id chunk) const {
    auto const& mine = owned_[owner(chunk).index()];
    return static_cast<int>(std::ranges::find(mine, chunk) - mine.begin());
  }
  [[nodiscard]] std::span<fssdp::chunk_id const> owned(fssdp::rank_id rank) const {
    return owned_[rank.index()];
  }

  friend bool operator==(reversed_layout const&, reversed_layout const&) = default;

 private:
  int slices_;
  std::vector<fssdp::rank_id> owner_;                // [chunks]
  std::vector<std::vector<fssdp::chunk_id>> owned_;  // [rank], in slot order
};

static_assert(fssdp::shard_layout<reversed_layout>);

}  // namespace support
