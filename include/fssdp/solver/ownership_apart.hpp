// SPDX-License-Identifier: Apache-2.0
/// Owners for units that must be on different ranks, if there are any.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fssdp/solver/ownership_state.hpp"

namespace fssdp::detail {

/// Finds units that are all apart and together may use fewer ranks than they are; or none. A
/// matching by augmenting paths (Kuhn, 1955).
/// @cost O(units * all their lists)
class crowded_units {
 public:
  explicit crowded_units(ownership_problem const& of) : of_{&of} {}

  [[nodiscard]] std::vector<int> find(std::vector<int> const& clique) {
    unit_at_.clear();
    for (auto const unit : clique) {
      if (of_->list_of[ownership_problem::index(unit)] < 0) continue;  // may be on any rank
      tried_.clear();
      reached_.assign(1, unit);
      if (!seat(unit)) return reached_;
    }
    return clique.size() > of_->node_of.size() ? clique : std::vector<int>{};
  }

 private:
  bool seat(int unit) {
    for (auto const rank : of_->list(unit)) {
      if (!tried_.emplace(rank, true).second) continue;
      auto const found = unit_at_.find(rank);
      if (found != unit_at_.end()) {
        reached_.push_back(found->second);
        if (!seat(found->second)) continue;
      }
      unit_at_[rank] = unit;
      return true;
    }
    return false;
  }

  ownership_problem const* of_;
  std::unordered_map<int, int> unit_at_;  // by rank
  std::unordered_map<int, bool> tried_;   // ranks
  std::vector<int> reached_;
};

/// Finds owners for all units that are apart from others; always next the one with fewest ranks
/// left.
class apart_units {
 public:
  explicit apart_units(ownership_problem const& of) : state_{of} {
    for (int u = 0; u < of.units(); ++u)
      if (!of.cliques_of[ownership_problem::index(u)].empty()) open_.push_back(u);
  }

  /// @return whether owners were found; false also if the search takes too long
  bool settle() {
    if (open_.empty()) return true;
    if (work_ <= 0) {
      if (stuck_ < 0) stuck_ = open_.front();
      return false;
    }
    auto scarcest = std::size_t{0};
    auto ranks = std::vector<int>{};
    for (std::size_t i = 0; i < open_.size(); ++i) {
      auto free = ranks_for(open_[i]);
      if (i > 0 && free.size() >= ranks.size()) continue;
      scarcest = i;
      ranks = std::move(free);
      if (ranks.empty()) {
        stuck_ = open_[i];
        return false;
      }
    }
    auto const unit = open_[scarcest];
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(scarcest));
    std::ranges::stable_sort(ranks, [&](int a, int b) {
      return state_.fullness_after(unit, a) < state_.fullness_after(unit, b);
    });
    for (auto const rank : ranks) {
      state_.place(unit, rank);
      if (settle()) return true;
      state_.remove(unit);
    }
    open_.insert(open_.begin() + static_cast<std::ptrdiff_t>(scarcest), unit);
    return false;
  }
  [[nodiscard]] std::vector<int> const& owners() const { return state_.owners(); }
  [[nodiscard]] bool is_proven() const { return work_ > 0; }
  /// The last unit for which no rank was left.
  [[nodiscard]] int stuck() const { return stuck_; }

 private:
  [[nodiscard]] std::vector<int> ranks_for(int unit) {
    auto const& of = state_.of();
    auto ranks = std::vector<int>{};
    auto const one = [&](int rank) {
      --work_;
      if (state_.fits(unit, rank)) ranks.push_back(rank);
    };
    if (of.list_of[ownership_problem::index(unit)] >= 0)
      for (auto const rank : of.list(unit)) one(rank);
    else
      for (int rank = 0; rank < of.ranks(); ++rank) one(rank);
    return ranks;
  }

  ownership_state state_;
  std::vector<int> open_;
  std::int64_t work_ = 50'000'000;  // the limit of ranks looked at: about a second
  int stuck_ = -1;
};

}  // namespace fssdp::detail
