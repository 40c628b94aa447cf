// SPDX-License-Identifier: Apache-2.0
/// Who holds each expert, in lists.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "fssdp/placement/placement.hpp"
#include "fssdp/topology/topology.hpp"

namespace sim {

/// A placement is a bit for every expert and rank; where thousands of ranks ask for the few holders
/// of an expert, lists are faster to read.
class holder_lists {
 public:
  explicit holder_lists(fssdp::placement const& where) : where_{&where}, first_{0} {
    for (auto const expert : fssdp::first_n<fssdp::expert_id>(where.experts())) {
      for (auto const rank : where.holders(expert)) ranks_.push_back(rank);
      first_.push_back(ranks_.size());
    }
  }

  [[nodiscard]] fssdp::placement const& where() const { return *where_; }
  /// Ascending.
  [[nodiscard]] std::span<fssdp::rank_id const> of(fssdp::expert_id expert) const {
    auto const first = first_[expert.index()];
    return std::span{ranks_}.subspan(first, first_[expert.index() + 1] - first);
  }
  /// Those among consecutive ranks.
  [[nodiscard]] std::span<fssdp::rank_id const> of(fssdp::expert_id expert, fssdp::rank_id first,
                                                   fssdp::rank_id last) const {
    auto const all = of(expert);
    auto const from = std::ranges::lower_bound(all, first);
    auto const to = std::upper_bound(from, all.end(), last);
    return {from, to};
  }

 private:
  fssdp::placement const* where_;
  std::vector<std::size_t> first_;  // [experts + 1]: into ranks_
  std::vector<fssdp::rank_id> ranks_ = {};
};

}  // namespace sim
