// SPDX-License-Identifier: Apache-2.0
/// The best owners for few units, by branch and bound.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "fssdp/solver/ownership_search.hpp"

namespace fssdp::detail {

/// Tries all assignments, the largest units first; skips those that cannot improve on the best one
/// by more than the precision.
class ownership_exact {
 public:
  ownership_exact(ownership_problem const& of, ownership_terms const& terms)
      : of_{&of}, terms_{terms}, state_{of}, order_{by_weight(of)}, trials_{terms.trials} {
    left_.resize(order_.size() + 1);
    for (auto i = order_.size(); i > 0; --i) left_[i - 1] = left_[i] + of.size[at(order_[i - 1])];
    choices_.resize(order_.size());
  }

  /// @param owners [units], a known assignment or empty; replaced if a better one is found
  /// @return whether a better one was found
  bool improve(std::vector<int>& owners) {
    best_cost_ = std::numeric_limits<double>::infinity();
    if (!owners.empty()) {
      auto state = ownership_state{*of_};
      for (int u = 0; u < of_->units(); ++u) state.place(u, owners[at(u)]);
      best_cost_ = terms_.cost(state.fullness(), state.moved_bytes());
    }
    found_ = false;
    branch(0);
    if (found_) owners = best_;
    return found_;
  }
  /// Whether the search was complete.
  [[nodiscard]] bool is_proven() const { return trials_ > 0; }

 private:
  struct choice {
    double fullness;
    std::uint64_t moved;
    int rank;
    friend auto operator<=>(choice const&, choice const&) = default;
  };

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  /// A solution must cost less than this.
  [[nodiscard]] double wanted() const { return best_cost_ * (1 - terms_.precision); }

  void branch(std::size_t depth) {
    if (depth == order_.size()) {
      auto const cost = terms_.cost(state_.fullness(), state_.moved_bytes());
      if (cost >= best_cost_) return;
      best_cost_ = cost;
      best_ = state_.owners();
      found_ = true;
      return;
    }
    auto const unit = order_[depth];
    auto& list = choices_[depth];
    find_choices(unit, list);
    for (auto const& next : list) {
      if (trials_ <= 0) return;
      auto const fullness = std::max({next.fullness, state_.fullness(), of_->bound});
      if (terms_.cost(fullness, state_.moved_bytes() + next.moved) >= wanted()) continue;
      state_.place(unit, next.rank);
      if (has_room(depth + 1)) branch(depth + 1);
      state_.remove(unit);
    }
  }

  void find_choices(int unit, std::vector<choice>& list) {
    list.clear();
    seen_empty_.assign(std::max<std::size_t>(of_->interface_scale.size(), 1), false);
    for (int rank = 0; rank < of_->ranks(); ++rank) {
      --trials_;
      if (!state_.fits(unit, rank)) continue;
      auto const moved = of_->moved(unit, rank);
      if (state_.moved_bytes() + moved > terms_.most_moved) continue;
      if (are_ranks_alike() && state_.units_on(rank).empty()) {  // empty ranks are equivalent
        auto const place = at(state_.interface_of(rank));
        if (seen_empty_[place]) continue;
        seen_empty_[place] = true;
      }
      list.push_back({state_.fullness_after(unit, rank), moved, rank});
    }
    std::ranges::sort(list, [&](choice const& a, choice const& b) {
      auto const x = terms_.cost(a.fullness, a.moved);
      auto const y = terms_.cost(b.fullness, b.moved);
      return x != y ? x < y : a < b;
    });
  }
  [[nodiscard]] bool are_ranks_alike() const {
    return of_->lists.empty() && !(of_->has_former_owners && terms_.moves_matter());
  }

  /// Whether the remaining units would fit below the wanted cost if they could be divided freely.
  [[nodiscard]] bool has_room(std::size_t depth) const {
    auto const most = wanted() - terms_.cost(0, state_.moved_bytes());
    if (most >= std::numeric_limits<double>::max()) return true;
    for (std::size_t k = 0; k < of_->total.size(); ++k) {
      auto const scale = of_->rank_scale[k];
      if (scale <= 0) continue;
      auto room = 0.0;
      for (int rank = 0; rank < of_->ranks(); ++rank)
        room += std::max(0.0, most - static_cast<double>(state_.on_rank(rank)[k]) * scale);
      if (room < static_cast<double>(left_[depth][k]) * scale * (1 - 1e-12)) return false;
    }
    return true;
  }

  ownership_problem const* of_;
  ownership_terms terms_;
  ownership_state state_;
  std::vector<int> order_;
  std::vector<ownership_amounts> left_;       // [units + 1]: of the remaining units, by depth
  std::vector<std::vector<choice>> choices_;  // by depth
  std::vector<bool> seen_empty_;              // [interfaces]
  std::vector<int> best_;
  double best_cost_ = 0;
  bool found_ = false;
  std::int64_t trials_;
};

}  // namespace fssdp::detail
