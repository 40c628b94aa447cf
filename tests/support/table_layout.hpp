// SPDX-License-Identifier: Apache-2.0
/// A layout that the library does not know: any owner for any expert.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/layout/shard_layout.hpp"

namespace support {

/// Owners by table. The slots of a rank run against the order of its experts, so that whoever takes
/// "ascending expert" for "next slot" is found out.
class table_layout {
 public:
  table_layout() = default;
  table_layout(int ranks, std::vector<fssdp::rank_id> owners)
      : owner_{std::move(owners)}, owned_(static_cast<std::size_t>(ranks)) {
    for (auto expert = fssdp::expert_id{experts() - 1}; expert.value() >= 0;
         expert = fssdp::expert_id{expert.value() - 1})
      owned_[owner(expert).index()].push_back(expert);
  }

  [[nodiscard]] int experts() const { return static_cast<int>(owner_.size()); }
  [[nodiscard]] int ranks() const { return static_cast<int>(owned_.size()); }
  [[nodiscard]] fssdp::rank_id owner(fssdp::expert_id expert) const {
    return owner_[expert.index()];
  }
  [[nodiscard]] int slot(fssdp::expert_id expert) const {
    auto const& mine = owned_[owner(expert).index()];
    return static_cast<int>(std::ranges::find(mine, expert) - mine.begin());
  }
  [[nodiscard]] std::span<fssdp::expert_id const> owned(fssdp::rank_id rank) const {
    return owned_[rank.index()];
  }

  friend bool operator==(table_layout const&, table_layout const&) = default;

 private:
  std::vector<fssdp::rank_id> owner_;
  std::vector<std::vector<fssdp::expert_id>> owned_;  // [rank], in slot order
};

static_assert(fssdp::shard_layout<table_layout>);

}  // namespace support
