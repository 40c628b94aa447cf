// SPDX-License-Identifier: Apache-2.0
/// An assignment during the search, and the fullness of every place.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fssdp/solver/least_tree.hpp"
#include "fssdp/solver/ownership_problem.hpp"

namespace fssdp::detail {

/// Tracks an assignment of units to ranks; some units may have no rank yet.
class ownership_state {
 public:
  explicit ownership_state(ownership_problem const& of)
      : of_{&of},
        owner_(of.size.size(), -1),
        place_(of.size.size()),
        on_rank_(of.node_of.size()),
        units_on_(of.node_of.size()),
        on_interface_(of.interface_scale.size()),
        fullest_{of.node_of.size()},
        emptiest_{of.node_of.size()},
        fullest_interface_{of.interface_scale.size()},
        emptiest_interface_{of.interface_scale.size()} {
    for (std::size_t k = 0; k < least_of_.size(); ++k)
      least_of_[k] = of.rank_scale[k] > 0 ? least_tree{of.node_of.size()} : least_tree{1};
  }

  [[nodiscard]] ownership_problem const& of() const { return *of_; }
  [[nodiscard]] std::vector<int> const& owners() const { return owner_; }
  [[nodiscard]] int owner(int unit) const { return owner_[at(unit)]; }
  [[nodiscard]] std::span<int const> units_on(int rank) const { return units_on_[at(rank)]; }
  [[nodiscard]] ownership_amounts const& on_rank(int rank) const { return on_rank_[at(rank)]; }
  [[nodiscard]] std::uint64_t moved_bytes() const { return moved_; }
  [[nodiscard]] int interface_of(int rank) const {
    return of_->interface_of.empty() ? 0 : of_->interface_of[at(rank)];
  }

  void place(int unit, int rank) {
    owner_[at(unit)] = rank;
    place_[at(unit)] = static_cast<int>(units_on_[at(rank)].size());
    units_on_[at(rank)].push_back(unit);
    for (auto const clique : of_->cliques_of[at(unit)]) taken_[key(clique, rank)] = unit;
    moved_ += of_->moved(unit, rank);
    change(rank, on_rank_[at(rank)] + of_->size[at(unit)]);
    if (!of_->interface_of.empty())
      change_interface(interface_of(rank),
                       on_interface_[at(interface_of(rank))] + of_->size[at(unit)]);
  }
  void remove(int unit) {
    auto const rank = owner(unit);
    auto& list = units_on_[at(rank)];
    list[at(place_[at(unit)])] = list.back();
    place_[at(list.back())] = place_[at(unit)];
    list.pop_back();
    owner_[at(unit)] = -1;
    for (auto const clique : of_->cliques_of[at(unit)]) taken_.erase(key(clique, rank));
    moved_ -= of_->moved(unit, rank);
    change(rank, on_rank_[at(rank)] - of_->size[at(unit)]);
    if (!of_->interface_of.empty())
      change_interface(interface_of(rank),
                       on_interface_[at(interface_of(rank))] - of_->size[at(unit)]);
  }
  /// Moves a unit to a rank, and the unit `back`, unless it is -1, to where the first one was.
  void move(int unit, int rank, int back) {
    auto const from = owner(unit);
    remove(unit);
    if (back >= 0) remove(back);
    place(unit, rank);
    if (back >= 0) place(back, from);
  }

  /// Whether a rank may own a unit, if it did not own the unit `without`.
  [[nodiscard]] bool fits(int unit, int rank, int without = -1) const {
    if (!of_->is_allowed(unit, rank)) return false;
    for (auto const clique : of_->cliques_of[at(unit)]) {
      auto const found = taken_.find(key(clique, rank));
      if (found != taken_.end() && found->second != without && found->second != unit) return false;
    }
    return true;
  }

  /// The largest fullness of the places that change if `unit` moves to a rank and `back` returns.
  [[nodiscard]] double fullness_after(int unit, int rank, int back = -1) const {
    auto const from = owner(unit);
    auto const& size = of_->size[at(unit)];
    auto const returned = back < 0 ? ownership_amounts{} : of_->size[at(back)];
    auto most = fullness_of(on_rank_[at(rank)] + size - returned, of_->rank_scale);
    if (from >= 0)
      most = std::max(most, fullness_of(on_rank_[at(from)] - size + returned, of_->rank_scale));
    if (of_->interface_of.empty()) return most;
    auto const into = interface_of(rank);
    if (from >= 0 && interface_of(from) == into) return most;
    auto const scale = [&](int i) { return of_->interface_scale[at(i)]; };
    most = std::max(most, fullness_of(on_interface_[at(into)] + size - returned, scale(into)));
    if (from < 0) return most;
    auto const out = interface_of(from);
    return std::max(most, fullness_of(on_interface_[at(out)] - size + returned, scale(out)));
  }
  /// By how many bytes such a step increases moved_bytes; negative: decreases.
  [[nodiscard]] std::int64_t moved_more(int unit, int rank, int back = -1) const {
    if (!of_->has_former_owners) return 0;
    auto const from = owner(unit);
    auto const signed_of = [](std::uint64_t bytes) { return static_cast<std::int64_t>(bytes); };
    auto more =
        signed_of(of_->moved(unit, rank)) - (from < 0 ? 0 : signed_of(of_->moved(unit, from)));
    if (back >= 0) more += signed_of(of_->moved(back, from)) - signed_of(of_->moved(back, rank));
    return more;
  }

  [[nodiscard]] double fullness() const {
    auto const rank = -fullest_.key(fullest_.least());
    return of_->interface_of.empty()
               ? rank
               : std::max(rank, -fullest_interface_.key(fullest_interface_.least()));
  }
  /// The ranks of the fullest place: one, or those behind an interface.
  [[nodiscard]] std::span<int const> fullest_ranks() const {
    auto const interface = fullest_interface();
    if (interface >= 0) return of_->behind[at(interface)];
    fullest_rank_ = fullest_.least();
    return {&fullest_rank_, 1};
  }
  /// The interface that is fuller than all ranks and other interfaces; -1 if there is none.
  [[nodiscard]] int fullest_interface() const {
    if (of_->interface_of.empty()) return -1;
    auto const interface = fullest_interface_.least();
    return fullest_interface_.key(interface) < fullest_.key(fullest_.least()) ? interface : -1;
  }

  /// Appends ranks that have room: all, if there are at most 64. Otherwise some that are emptiest
  /// in total, in each amount, and behind the emptiest interface; and as many more as may be
  /// `taken`.
  void append_roomy(std::size_t taken, std::vector<int>& list) {
    constexpr auto all_ranks = 64;
    if (of_->ranks() <= all_ranks) {
      for (int rank = 0; rank < of_->ranks(); ++rank) list.push_back(rank);
      return;
    }
    emptiest_.append_rivals(list);
    for (std::size_t k = 0; k < least_of_.size(); ++k)
      if (of_->rank_scale[k] > 0) least_of_[k].append_rivals(list);
    if (!of_->interface_of.empty())
      for (auto const rank : of_->behind[at(emptiest_interface_.least())]) list.push_back(rank);
    if (taken > 0) emptiest_.append_least(taken + 1, list);
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  static std::uint64_t key(int clique, int rank) {
    return static_cast<std::uint64_t>(clique) << 32U | static_cast<std::uint64_t>(rank);
  }

  void change(int rank, ownership_amounts const& now) {
    on_rank_[at(rank)] = now;
    auto const fullness = fullness_of(now, of_->rank_scale);
    fullest_.set(rank, -fullness);
    emptiest_.set(rank, fullness);
    for (std::size_t k = 0; k < now.size(); ++k)
      if (of_->rank_scale[k] > 0) least_of_[k].set(rank, static_cast<double>(now[k]));
  }
  void change_interface(int interface, ownership_amounts const& now) {
    on_interface_[at(interface)] = now;
    auto const fullness = fullness_of(now, of_->interface_scale[at(interface)]);
    fullest_interface_.set(interface, -fullness);
    emptiest_interface_.set(interface, fullness);
  }

  ownership_problem const* of_;
  std::vector<int> owner_;  // [units]; -1: none yet
  std::vector<int> place_;  // [units]: the index in the list of its rank
  std::vector<ownership_amounts> on_rank_;
  std::vector<std::vector<int>> units_on_;
  std::vector<ownership_amounts> on_interface_;
  std::unordered_map<std::uint64_t, int> taken_;  // by clique and rank: its unit
  std::uint64_t moved_ = 0;
  least_tree fullest_;  // by negative fullness
  least_tree emptiest_;
  least_tree fullest_interface_;
  least_tree emptiest_interface_;
  std::array<least_tree, 3> least_of_ = {least_tree{1}, least_tree{1}, least_tree{1}};
  mutable int fullest_rank_ = 0;
};

}  // namespace fssdp::detail
