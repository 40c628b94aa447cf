// SPDX-License-Identifier: Apache-2.0
/// A local search: assigns the largest units first, then empties the fullest place step by step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fssdp/solver/ownership_state.hpp"

namespace fssdp::detail {

/// The price of moves, and when to stop.
struct ownership_terms {
  double price = 0;              ///< in fullness, per moved byte
  std::uint64_t most_moved = 0;  ///< the limit of moved bytes
  double precision = 0;          ///< relative
  std::int64_t trials = 0;       ///< the limit of moves and exchanges that are tried
  [[nodiscard]] bool moves_matter() const { return price > 0 || most_moved != unlimited; }
  [[nodiscard]] double cost(double fullness, std::uint64_t moved) const {
    return price > 0 ? fullness + price * static_cast<double>(moved) : fullness;
  }
  static constexpr auto unlimited = static_cast<std::uint64_t>(-1);
};

/// Units by size, largest first; units that are apart from others before all others.
[[nodiscard]] inline std::vector<int> by_weight(ownership_problem const& of) {
  auto weight = std::vector<double>(of.size.size());
  for (int u = 0; u < of.units(); ++u) weight[ownership_problem::index(u)] = of.weight(u);
  auto order = std::vector<int>(of.size.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](int a, int b) {
    auto const x = ownership_problem::index(a);
    auto const y = ownership_problem::index(b);
    auto const first = of.cliques_of[x].empty();
    if (first != of.cliques_of[y].empty()) return !first;
    return weight[x] != weight[y] ? weight[x] > weight[y] : a < b;
  });
  return order;
}

/// Changes owners step by step.
class ownership_search {
 public:
  ownership_search(ownership_state& state, ownership_terms const& terms)
      : state_{&state}, of_{&state.of()}, terms_{terms}, trials_{terms.trials} {}

  /// Assigns units without an owner, in this order, to where the fullness is then smallest.
  /// @return the first unit that fits nowhere, or -1
  int settle(std::vector<int> const& order) {
    for (auto const unit : order) {
      if (state_->owner(unit) >= 0) continue;
      auto const rank = emptiest_with(unit);
      if (rank < 0) return unit;
      state_->place(unit, rank);
    }
    return -1;
  }

  /// Takes steps as long as the fullest place gets emptier, then returns to the state with the
  /// lowest cost of fullness and moves. Of nearly equal costs, to the one with the fewest moves.
  void descend() {
    taken_.clear();
    auto const start = terms_.cost(state_->fullness(), state_->moved_bytes());
    auto best = start;
    auto kept = std::size_t{0};
    while (trials_ > 0 && state_->fullness() > of_->bound * (1 + terms_.precision)) {
      auto const next = best_step();
      if (next.unit < 0) break;
      taken_.push_back({next.unit, state_->owner(next.unit), next.back});
      state_->move(next.unit, next.rank, next.back);
      auto const cost = terms_.cost(state_->fullness(), state_->moved_bytes());
      if (cost >= best) continue;
      best = cost;
      kept = taken_.size();
    }
    if (of_->has_former_owners && best > start * (1 - terms_.precision)) kept = 0;
    while (taken_.size() > kept) {
      auto const& last = taken_.back();
      state_->move(last.unit, last.from, last.back);
      taken_.pop_back();
    }
  }

  /// Brings the units of a group to the node that has most of them, if the largest fullness does
  /// not grow and no more bytes are moved.
  void gather_groups() {
    if (of_->groups.empty() || of_->ranks_on.size() < 2) return;
    limit_ = state_->fullness();
    on_node_.clear();
    for (std::size_t g = 0; g < of_->groups.size(); ++g)
      for (auto const unit : of_->groups[g]) ++on_node_[{static_cast<int>(g), node(unit)}];
    for (auto changed = true; changed && trials_ > 0;) {
      changed = false;
      for (std::size_t g = 0; g < of_->groups.size(); ++g)
        changed = gather(static_cast<int>(g)) || changed;
    }
  }
  /// The number of groups that are on one node.
  [[nodiscard]] std::size_t gathered_groups() const {
    auto count = std::size_t{0};
    for (auto const& group : of_->groups)
      count += std::ranges::all_of(group, [&](int u) { return node(u) == node(group.front()); });
    return count;
  }

 private:
  struct step {
    int unit = -1;
    int rank = -1;
    int back = -1;
    double after = 0;
    std::int64_t moved = 0;
  };
  struct undo {
    int unit, from, back;
  };
  static constexpr auto most_partners = std::ptrdiff_t{8};

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] int node(int unit) const { return of_->node_of[at(state_->owner(unit))]; }

  int emptiest_with(int unit) {
    ranks_.clear();
    if (of_->list_of[at(unit)] >= 0) {
      auto const list = of_->list(unit);
      ranks_.assign(list.begin(), list.end());
    } else {
      auto others = std::size_t{0};
      for (auto const clique : of_->cliques_of[at(unit)]) others += of_->cliques[at(clique)].size();
      state_->append_roomy(others, ranks_);
    }
    auto best = -1;
    auto best_key = std::pair{0.0, 0.0};
    for (auto const rank : ranks_) {
      if (!state_->fits(unit, rank)) continue;
      auto const key = std::pair{std::max(of_->bound, state_->fullness_after(unit, rank)),
                                 overlap(of_->size[at(unit)], state_->on_rank(rank))};
      if (best >= 0 && key >= best_key) continue;
      best = rank;
      best_key = key;
    }
    return best;
  }

  /// How similar two vectors of amounts are: their scaled inner product.
  [[nodiscard]] double overlap(ownership_amounts const& a, ownership_amounts const& b) const {
    auto sum = 0.0;
    for (std::size_t k = 0; k < a.size(); ++k) {
      auto const scale = of_->rank_scale[k];
      sum += static_cast<double>(a[k]) * scale * static_cast<double>(b[k]) * scale;
    }
    return sum;
  }

  /// The step that most lowers the fullest place without making another one as full.
  step best_step() {
    auto const now = state_->fullness();
    auto best = step{};
    fullest_interface_ = state_->fullest_interface();
    sources_.assign(state_->fullest_ranks().begin(), state_->fullest_ranks().end());
    ranks_.clear();
    state_->append_roomy(0, ranks_);
    for (auto const source : sources_)
      for (auto const unit : largest_on(source)) {
        consider_moves(unit, now, best);
        if (!terms_.moves_matter() && is_enough(best, now)) return best;
      }
    if (is_enough(best, now)) return best;
    // There are many possible exchanges: only those with the emptiest ranks are tried.
    auto const roomy =
        of_->ranks() > 64 ? std::min(most_partners, std::ssize(ranks_)) : std::ssize(ranks_);
    std::ranges::partial_sort(ranks_, ranks_.begin() + roomy, {}, [&](int rank) {
      return std::pair{fullness_of(state_->on_rank(rank), of_->rank_scale), rank};
    });
    ranks_.erase(std::unique(ranks_.begin(), ranks_.begin() + roomy), ranks_.end());
    for (auto const source : sources_)
      for (auto const unit : largest_on(source)) {
        for (auto const rank : ranks_)
          if (rank != source) consider_exchanges(unit, rank, now, best);
        if (trials_ <= 0 || is_enough(best, now)) return best;
      }
    return best;
  }
  /// Whether a step is good enough to stop looking for a better one. Where moves matter it is not,
  /// unless the remaining trials are few for the number of ranks.
  [[nodiscard]] bool is_enough(step const& best, double now) const {
    constexpr auto of_a_step = std::int64_t{4096};
    auto const are_trials_scarce = terms_.trials / of_a_step < of_->ranks();
    return best.unit >= 0 && (!terms_.moves_matter() || are_trials_scarce) &&
           best.after <= now - (now - of_->bound) / 2;
  }

  /// The units of a rank; if it has many, some of the largest and some of the smallest.
  [[nodiscard]] std::vector<int> largest_on(int rank) const {
    constexpr auto most = std::ptrdiff_t{64};
    auto const all = state_->units_on(rank);
    auto units = std::vector<int>(all.begin(), all.end());
    std::ranges::sort(units);
    if (std::ssize(units) <= most) return units;
    std::ranges::stable_sort(units, [&](int a, int b) { return of_->weight(a) > of_->weight(b); });
    // half of them the largest, half the smallest: those fit where little room is left
    units.erase(units.begin() + most / 2, units.end() - most / 2);
    return units;
  }

  void consider_moves(int unit, double now, step& best) {
    auto const list = of_->list(unit);
    auto const one = [&](int rank) {
      if (rank != state_->owner(unit)) consider({unit, rank, -1}, now, best);
    };
    if (of_->list_of[at(unit)] >= 0)
      for (auto const rank : list) one(rank);
    else
      for (auto const rank : ranks_) one(rank);
    if (!of_->has_former_owners || of_->list_of[at(unit)] >= 0) return;
    for (auto const& former : of_->former_owners[at(unit)]) one(former.rank);
  }
  void consider_exchanges(int unit, int rank, double now, step& best) {
    if (!of_->is_allowed(unit, rank)) return;
    constexpr auto most = std::size_t{64};
    auto const others = state_->units_on(rank);
    for (std::size_t i = 0; i < std::min(most, others.size()); ++i)
      consider({unit, rank, others[i]}, now, best);
  }

  void consider(step next, double now, step& best) {
    --trials_;
    // what stays behind the fullest interface does not make it emptier
    if (fullest_interface_ >= 0 && state_->interface_of(next.rank) == fullest_interface_) return;
    next.after = state_->fullness_after(next.unit, next.rank, next.back);
    if (next.after >= now * (1 - 1e-9)) return;
    if (!terms_.moves_matter() && best.unit >= 0 && next.after > best.after) return;
    next.moved = state_->moved_more(next.unit, next.rank, next.back);
    if (next.moved > 0 && state_->moved_bytes() + static_cast<std::uint64_t>(next.moved) >
                              std::max(terms_.most_moved, state_->moved_bytes()))
      return;
    if (best.unit >= 0 && !is_better(next, best, now)) return;
    if (!state_->fits(next.unit, next.rank, next.back)) return;
    if (next.back >= 0 && !state_->fits(next.back, state_->owner(next.unit), next.unit)) return;
    best = next;
  }
  [[nodiscard]] bool is_better(step const& a, step const& b, double now) const {
    if (terms_.moves_matter()) {
      auto const free_a = a.moved <= 0;
      if (free_a != (b.moved <= 0)) return free_a;
      if (!free_a) {  // compare the gain per byte moved
        auto const x = (now - a.after) * static_cast<double>(b.moved);
        auto const y = (now - b.after) * static_cast<double>(a.moved);
        if (x != y) return x > y;
      }
    }
    if (a.after != b.after) return a.after < b.after;
    return a.moved < b.moved;
  }

  bool gather(int group) {
    auto target = node(of_->groups[at(group)].front());
    for (auto const unit : of_->groups[at(group)])
      if (count(group, node(unit)) > count(group, target)) target = node(unit);
    auto changed = false;
    for (auto const unit : of_->groups[at(group)])
      if (node(unit) != target) changed = bring(unit, target) || changed;
    return changed;
  }
  bool bring(int unit, int target) {
    for (auto const rank : of_->ranks_on[at(target)])
      if (is_free(unit, rank, -1)) return take(unit, rank, -1);
    for (auto const rank : of_->ranks_on[at(target)]) {
      auto const others = state_->units_on(rank);
      for (auto const other : others)
        if (is_free(unit, rank, other)) return take(unit, rank, other);
    }
    return false;
  }
  [[nodiscard]] bool is_free(int unit, int rank, int back) {
    if (--trials_ <= 0) return false;
    if (state_->fullness_after(unit, rank, back) > limit_) return false;
    if (state_->moved_more(unit, rank, back) > 0 || !state_->fits(unit, rank, back)) return false;
    if (back >= 0 && !state_->fits(back, state_->owner(unit), unit)) return false;
    auto const from = node(unit);
    auto const to = of_->node_of[at(rank)];
    auto gain = gained(unit, from, to);
    if (back >= 0) gain += gained(back, to, from);
    if (back < 0) return gain > 0;
    for (auto const g : of_->groups_of[at(unit)])  // of both: nothing changes
      gain -= 2 * static_cast<int>(std::ranges::count(of_->groups_of[at(back)], g));
    return gain > 0;
  }
  /// Half the increase of the sum of squares of the numbers of units that groups have on nodes.
  [[nodiscard]] int gained(int unit, int from, int to) const {
    auto sum = 0;
    for (auto const g : of_->groups_of[at(unit)]) sum += count(g, to) - count(g, from) + 1;
    return sum;
  }
  bool take(int unit, int rank, int back) {
    auto const from = node(unit);
    auto const to = of_->node_of[at(rank)];
    state_->move(unit, rank, back);
    relocate(unit, from, to);
    if (back >= 0) relocate(back, to, from);
    return true;
  }
  void relocate(int unit, int from, int to) {
    for (auto const g : of_->groups_of[at(unit)]) {
      --on_node_[{g, from}];
      ++on_node_[{g, to}];
    }
  }
  [[nodiscard]] int count(int group, int at_node) const {
    auto const found = on_node_.find({group, at_node});
    return found == on_node_.end() ? 0 : found->second;
  }

  struct pair_hash {
    std::size_t operator()(std::pair<int, int> const& of) const {
      return static_cast<std::size_t>(of.first) << 32U ^ static_cast<std::size_t>(of.second);
    }
  };

  ownership_state* state_;
  ownership_problem const* of_;
  ownership_terms terms_;
  std::int64_t trials_;
  std::vector<int> ranks_, sources_;
  int fullest_interface_ = -1;
  std::vector<undo> taken_;
  double limit_ = 0;
  std::unordered_map<std::pair<int, int>, int, pair_hash> on_node_;  // by group and node: units
};

}  // namespace fssdp::detail
