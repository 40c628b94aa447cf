// SPDX-License-Identifier: Apache-2.0
/// Improves a map slot by slot.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/solver/expert_load_balancer.hpp"
#include "fssdp/solver/incremental_load_balancer.hpp"

namespace fssdp {

namespace detail {

/// A map whose slots change one by one, and the load of every rank.
class changing_map {
 public:
  changing_map(physical_experts const& map, std::span<std::uint64_t const> loads)
      : slots_{static_cast<std::size_t>(map.slots_per_rank())},
        before_(map.physical_to_logical().begin(), map.physical_to_logical().end()),
        expert_(before_),
        count_(loads.size()),
        load_(loads.begin(), loads.end()),
        of_rank_(static_cast<std::size_t>(map.ranks())) {
    for (auto const expert : expert_) ++count_[expert.index()];
    for (std::size_t slot = 0; slot < expert_.size(); ++slot)
      of_rank_[slot / slots_] += share(expert_[slot]);
    mean_ = std::accumulate(load_.begin(), load_.end(), 0.0) / static_cast<double>(map.ranks());
  }

  [[nodiscard]] std::vector<expert_id> const& slots() const { return expert_; }
  [[nodiscard]] double mean() const { return mean_; }
  [[nodiscard]] double fullest() const { return std::ranges::max(of_rank_); }
  [[nodiscard]] int changes() const { return changes_; }

  /// Makes the change that lowers the fullest rank most per changed slot.
  /// @param most the number of slots that may still change
  /// @return whether there was one
  [[nodiscard]] bool improve(int most) {
    hot_ = static_cast<std::size_t>(std::ranges::max_element(of_rank_) - of_rank_.begin());
    best_ = {};
    auto others = std::vector<std::size_t>{};
    for (std::size_t rank = 0; rank < of_rank_.size(); ++rank)
      if (rank != hot_) others.push_back(rank);
    auto const few = std::min(others.size(), most_ranks);
    std::ranges::partial_sort(others, others.begin() + static_cast<std::ptrdiff_t>(few), {},
                              [&](std::size_t rank) {
                                return std::tuple{of_rank_[rank], rank};
                              });
    others.resize(few);
    for (auto const rank : others) {
      consider_exchanges(rank, most);
      consider_replicas(rank, most);
    }
    if (!best_.has_value()) return false;
    if (best_->exchanges) {
      auto const mine = expert_[best_->hot_slot];
      auto const other = expert_[best_->slot];
      set(best_->hot_slot, other);
      set(best_->slot, mine);
    } else {
      set(best_->slot, expert_[best_->hot_slot]);
    }
    return true;
  }

 private:
  static constexpr auto most_ranks = std::size_t{16};  // the emptiest: partners of the fullest

  struct change {
    bool exchanges;  ///< two slots are exchanged; otherwise `slot` gets the expert of hot_slot
    std::size_t hot_slot;
    std::size_t slot;
    double gain;  ///< in load of the fullest rank, per changed slot
  };

  [[nodiscard]] double share(expert_id expert) const {
    return load_[expert.index()] / count_[expert.index()];
  }
  [[nodiscard]] std::size_t first(std::size_t rank) const { return rank * slots_; }
  /// How many more slots differ from the first map if `slot` gets this expert.
  [[nodiscard]] int cost(std::size_t slot, expert_id becomes) const {
    return (before_[slot] != becomes ? 1 : 0) - (before_[slot] != expert_[slot] ? 1 : 0);
  }
  void consider(change const& one, double fullest, int cost, int most) {
    if (cost > most) return;
    auto const lowered = of_rank_[hot_] - fullest;
    if (lowered <= 1e-9 * mean_) return;
    auto rated = one;
    rated.gain = lowered / std::max(cost, 1);
    if (!best_.has_value() || rated.gain > best_->gain) best_ = rated;
  }
  void consider_exchanges(std::size_t rank, int most) {
    for (auto mine = first(hot_); mine < first(hot_) + slots_; ++mine)
      for (auto other = first(rank); other < first(rank) + slots_; ++other) {
        auto const more = share(expert_[mine]) - share(expert_[other]);
        if (more <= 0) continue;
        consider({true, mine, other, 0}, std::max(of_rank_[hot_] - more, of_rank_[rank] + more),
                 cost(mine, expert_[other]) + cost(other, expert_[mine]), most);
      }
  }
  /// Considers slots of the rank for one more replica of an expert of the fullest rank. The load of
  /// the former expert is then divided among its other slots, which may be on the fullest rank.
  void consider_replicas(std::size_t rank, int most) {
    for (auto slot = first(rank); slot < first(rank) + slots_; ++slot) {
      auto const lost = expert_[slot];
      if (count_[lost.index()] < 2) continue;
      for (auto mine = first(hot_); mine < first(hot_) + slots_; ++mine) {
        auto const wanted = expert_[mine];
        if (wanted == lost) continue;
        auto const n = count_[wanted.index()];
        auto const smaller = load_[wanted.index()] / (n + 1);
        auto const saved = share(wanted) - smaller;
        auto const added = load_[lost.index()] / (count_[lost.index()] - 1) - share(lost);
        auto const here = of_rank_[rank] + smaller - share(lost) +
                          added * others_on(rank, lost, slot) - saved * slots_on(rank, wanted);
        auto const there =
            of_rank_[hot_] - saved * slots_on(hot_, wanted) + added * slots_on(hot_, lost);
        consider({false, mine, slot, 0}, std::max({here, there, elsewhere(lost, added)}),
                 cost(slot, wanted), most);
      }
    }
  }
  [[nodiscard]] double slots_on(std::size_t rank, expert_id expert) const {
    auto const begin = expert_.begin() + static_cast<std::ptrdiff_t>(first(rank));
    return static_cast<double>(
        std::count(begin, begin + static_cast<std::ptrdiff_t>(slots_), expert));
  }
  [[nodiscard]] double others_on(std::size_t rank, expert_id expert, std::size_t slot) const {
    return slots_on(rank, expert) - (expert_[slot] == expert ? 1 : 0);
  }
  /// The largest load of a rank that takes over the load of a removed slot.
  [[nodiscard]] double elsewhere(expert_id lost, double added) const {
    auto most = 0.0;
    for (std::size_t slot = 0; slot < expert_.size(); ++slot)
      if (auto const rank = slot / slots_; expert_[slot] == lost && rank != hot_)
        most = std::max(most, of_rank_[rank] + added * slots_on(rank, lost));
    return most;
  }

  void set(std::size_t slot, expert_id expert) {
    changes_ += cost(slot, expert);
    auto const was = std::exchange(expert_[slot], expert);
    --count_[was.index()];
    ++count_[expert.index()];
    std::ranges::fill(of_rank_, 0.0);
    for (std::size_t s = 0; s < expert_.size(); ++s)
      if (count_[expert_[s].index()] > 0) of_rank_[s / slots_] += share(expert_[s]);
  }

  std::size_t slots_;  // on each rank
  std::vector<expert_id> before_;
  std::vector<expert_id> expert_;  // [slots]
  std::vector<int> count_;         // [experts]: slots
  std::vector<double> load_;       // [experts]
  std::vector<double> of_rank_;
  double mean_ = 0;
  int changes_ = 0;
  std::size_t hot_ = 0;
  std::optional<change> best_;
};

/// Renames the ranks of a map such that most experts are where they were, and reorders the slots of
/// each rank such that experts keep their slots.
/// @param alike(a, b): whether two ranks may be exchanged
template <class Alike>
[[nodiscard]] std::vector<expert_id> nearest_names(physical_experts const& before,
                                                   physical_experts const& wanted, Alike alike) {
  auto const ranks = static_cast<std::size_t>(before.ranks());
  auto const slots = static_cast<std::size_t>(before.slots_per_rank());
  struct pair {
    int common;
    std::size_t name;
    std::size_t rank;
  };
  auto pairs = std::vector<pair>{};
  for (auto const name : first_n<rank_id>(before.ranks())) {
    auto has = std::vector<expert_id>(before.on(name).begin(), before.on(name).end());
    std::ranges::sort(has);
    for (auto const rank : first_n<rank_id>(before.ranks())) {
      if (!alike(name, rank)) continue;
      auto gets = std::vector<expert_id>(wanted.on(rank).begin(), wanted.on(rank).end());
      std::ranges::sort(gets);
      auto both = std::vector<expert_id>{};
      std::ranges::set_intersection(has, gets, std::back_inserter(both));
      pairs.push_back({static_cast<int>(both.size()), name.index(), rank.index()});
    }
  }
  std::ranges::stable_sort(pairs, {}, [](pair const& p) { return -p.common; });
  auto const none = ranks;
  auto rank_of = std::vector<std::size_t>(ranks, none);
  auto taken = std::vector<char>(ranks);
  for (auto const& p : pairs)
    if (rank_of[p.name] == none && taken[p.rank] == 0) {
      rank_of[p.name] = p.rank;
      taken[p.rank] = 1;
    }
  auto result = std::vector<expert_id>{};
  for (auto const name : first_n<rank_id>(before.ranks())) {
    auto const has = before.on(name);
    auto const gets = wanted.on(rank_id{rank_of[name.index()]});
    auto left = std::vector<expert_id>(gets.begin(), gets.end());
    auto stays = std::vector<char>(slots);
    for (std::size_t slot = 0; slot < slots; ++slot)
      if (auto const found = std::ranges::find(left, has[slot]); found != left.end()) {
        stays[slot] = 1;
        left.erase(found);
      }
    auto next = left.begin();
    for (std::size_t slot = 0; slot < slots; ++slot)
      result.push_back(stays[slot] != 0 ? has[slot] : *next++);
  }
  return result;
}

inline void require_loads_of(char const* who, physical_experts const& map,
                             std::span<std::uint64_t const> loads) {
  require(loads.size() == static_cast<std::size_t>(map.experts()), who, ": ", loads.size(),
          " loads; expected ", map.experts(), ", one for each expert");
}

}  // namespace detail

FSSDP_INLINE int changed_slots(physical_experts const& before, physical_experts const& after) {
  auto const a = before.physical_to_logical();
  auto const b = after.physical_to_logical();
  detail::require(a.size() == b.size() && before.ranks() == after.ranks(),
                  "changed_slots: before has ", a.size(), " slots on ", before.ranks(),
                  " ranks, after has ", b.size(), " on ", after.ranks(), "; expected equal shapes");
  auto count = 0;
  for (std::size_t slot = 0; slot < a.size(); ++slot) count += a[slot] != b[slot] ? 1 : 0;
  return count;
}

FSSDP_INLINE double balance_of(physical_experts const& map, std::span<std::uint64_t const> loads) {
  detail::require_loads_of("balance_of", map, loads);
  auto const of = detail::changing_map{map, loads};
  return of.mean() == 0 ? 1.0 : of.fullest() / of.mean();
}

FSSDP_INLINE physical_experts incremental_load_balancer::operator()(
    physical_experts const& before, std::span<std::uint64_t const> loads) const {
  constexpr auto name = "incremental_load_balancer";
  detail::require_loads_of(name, before, loads);
  detail::require(balance >= 1, name, ": balance is ", balance, "; expected 1 or more");
  detail::require(most_changes >= 0, name, ": most_changes is ", most_changes,
                  "; expected 0 or more");
  auto const topo = topology_or_one_node(topology, before.ranks());
  auto const shape = physical_experts::shape{before.experts(), before.ranks()};
  auto map = detail::changing_map{before, loads};
  auto const enough = [&] { return map.fullest() <= balance * map.mean(); };
  auto const is_grouped = groups > 1 && groups % topo.nodes() == 0;  // groups stay on their nodes
  while (!is_grouped && !enough() && map.improve(most_changes - map.changes())) continue;
  auto result = physical_experts{shape, map.slots()};
  if (enough()) return result;
  auto const fresh = expert_load_balancer{.replicas = before.ranks() * before.slots_per_rank(),
                                          .groups = groups,
                                          .topology = topo}(loads);
  auto const renamed =
      physical_experts{shape, detail::nearest_names(before, fresh, [&](rank_id a, rank_id b) {
                         return !is_grouped || topo.same_node(a, b);
                       })};
  auto const is_better = balance_of(renamed, loads) < balance_of(result, loads);
  return is_better && changed_slots(before, renamed) <= most_changes ? renamed : result;
}

}  // namespace fssdp
