// SPDX-License-Identifier: Apache-2.0
/// Checks items, constraints and previous owners, and builds an ownership_problem of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/solver/owned_item.hpp"
#include "fssdp/solver/ownership_apart.hpp"
#include "fssdp/solver/ownership_constraints.hpp"
#include "fssdp/solver/ownership_order.hpp"
#include "fssdp/solver/ownership_problem.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp::detail {

/// Builds the problem; every error names the items that it concerns.
class ownership_units {
 public:
  ownership_units(std::span<owned_item const> items, topology const& topo,
                  ownership_constraints const& constraints, std::span<rank_id const> before)
      : items_{items}, topo_{&topo}, constraints_{&constraints}, before_{before} {
    require(!items.empty(), "ownership_planner: 0 items; expected 1 or more");
    require(items.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max()),
            "ownership_planner: ", items.size(), " items; expected at most ",
            std::numeric_limits<int>::max());
    require(topo.ranks() >= 1, "ownership_planner: a topology of 0 ranks; expected 1 or more");
    check_before();
    problem_.set_topology(topo);
    unite();
    add_amounts();
    add_former_owners();
    restrict_ranks();
    add_cliques();
    add_groups();
    ownership_order{problem_}.apply(topo);
  }

  [[nodiscard]] ownership_problem take() { return std::move(problem_); }

 private:
  using sets = std::vector<ownership_constraints::item_set>;

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] int unit_of(item_id item) const { return problem_.unit_of[item.index()]; }
  void check(item_id item, char const* where) const {
    require(item.value() >= 0 && item.index() < items_.size(), "ownership_planner: item ", item,
            " in `", where, "`; expected 0 to ", items_.size() - 1);
  }
  void check(rank_id rank, item_id item, int least) const {
    require(rank.value() >= least && rank.value() < topo_->ranks(), "ownership_planner: rank ",
            rank, " of item ", item, "; expected ", least, " to ", topo_->ranks() - 1);
  }
  [[nodiscard]] rank_id owner_before(item_id item) const {
    return before_.empty() ? rank_id{-1} : before_[item.index()];
  }

  void check_before() const {
    require(before_.empty() || before_.size() == items_.size(), "ownership_planner: before has ",
            before_.size(), " owners; expected 0 or ", items_.size(), ", one for each item");
    for (std::size_t i = 0; i < before_.size(); ++i) check(before_[i], item_id{i}, -1);
  }

  /// Merges items that go together into units, numbered in the order of their first items.
  void unite() {
    auto root = std::vector<int>(items_.size());
    std::iota(root.begin(), root.end(), 0);
    auto const find = [&](int i) {
      while (root[at(i)] != i) i = root[at(i)] = root[at(root[at(i)])];
      return i;
    };
    for (auto const& set : constraints_->together)
      for (auto const item : set) {
        check(item, "together");
        check(set.front(), "together");
        auto const a = find(set.front().value());
        auto const b = find(item.value());
        root[at(std::max(a, b))] = std::min(a, b);
      }
    problem_.unit_of.resize(items_.size());
    for (int i = 0; i < static_cast<int>(items_.size()); ++i) {
      auto const first = find(i);
      if (first == i) {
        problem_.unit_of[at(i)] = static_cast<int>(problem_.first_item.size());
        problem_.first_item.push_back(i);
      } else {
        problem_.unit_of[at(i)] = problem_.unit_of[at(first)];
      }
    }
    auto const units = problem_.first_item.size();
    problem_.size.resize(units);
    problem_.list_of.assign(units, -1);
    problem_.cliques_of.resize(units);
    problem_.groups_of.resize(units);
  }

  void add_amounts() {
    static constexpr auto names = std::array{"bytes", "step cost", "load"};
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    for (std::size_t i = 0; i < items_.size(); ++i) {
      auto const& item = items_[i];
      auto const amounts = ownership_amounts{item.bytes, item.step_cost, item.load};
      for (std::size_t k = 0; k < amounts.size(); ++k)
        require(amounts[k] <= most - problem_.total[k], "ownership_planner: the ", names[k],
                " of items 0 to ", i, " add up to 2^63 or more; expected less, of all items");
      auto& size = problem_.size[at(problem_.unit_of[i])];
      size = size + amounts;
      problem_.total = problem_.total + amounts;
    }
  }

  void add_former_owners() {
    problem_.has_former_owners =
        std::ranges::any_of(before_, [](rank_id r) { return r.value() >= 0; });
    if (!problem_.has_former_owners) return;
    problem_.former_owners.resize(problem_.size.size());
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (before_[i].value() < 0) continue;
      auto& former_owners = problem_.former_owners[at(problem_.unit_of[i])];
      auto const rank = before_[i].value();
      auto const found =
          std::ranges::find(former_owners, rank, &ownership_problem::former_owner::rank);
      if (found == former_owners.end())
        former_owners.push_back({rank, items_[i].bytes});
      else
        found->bytes += items_[i].bytes;
    }
  }

  void restrict_ranks() {
    auto numbers = std::map<std::vector<int>, int>{};
    auto const restrict_to = [&](item_id item, std::vector<int> ranks) {
      std::ranges::sort(ranks);
      ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
      auto& which = problem_.list_of[at(unit_of(item))];
      if (which >= 0) {
        auto both = std::vector<int>{};
        std::ranges::set_intersection(problem_.lists[at(which)], ranks, std::back_inserter(both));
        ranks = std::move(both);
      }
      require(!ranks.empty(), "ownership_planner: no rank is left for item ", item,
              items_with(unit_of(item), item), "; expected `on_ranks`, `same_node` and ",
              "`together` to leave one");
      auto const [found, is_new] =
          numbers.emplace(std::move(ranks), static_cast<int>(problem_.lists.size()));
      if (is_new) problem_.lists.push_back(found->first);
      which = found->second;
    };
    for (auto const& [item, ranks] : constraints_->on_ranks) {
      check(item, "on_ranks");
      auto list = std::vector<int>{};
      for (auto const rank : ranks) {
        check(rank, item, 0);
        list.push_back(rank.value());
      }
      restrict_to(item, std::move(list));
    }
    for (auto const item : constraints_->same_node) {
      check(item, "same_node");
      auto const owner = owner_before(item);
      require(owner.value() >= 0, "ownership_planner: item ", item,
              " in `same_node` has no owner in `before`; expected one");
      auto list = std::vector<int>{};
      for (auto const rank : topo_->ranks_on(topo_->node(owner))) list.push_back(rank.value());
      restrict_to(item, std::move(list));
    }
  }
  /// The other items of a unit, for an error message.
  [[nodiscard]] std::string items_with(int unit, item_id but) const {
    auto list = std::string{};
    for (std::size_t i = 0; i < items_.size(); ++i)
      if (problem_.unit_of[i] == unit && i != but.index())
        list += text(list.empty() ? ", which goes together with " : ", ", i);
    return list;
  }

  void add_cliques() {
    for (auto const& set : constraints_->apart) {
      auto clique = std::vector<int>{};
      auto first = std::map<int, item_id>{};
      for (auto const item : set) {
        check(item, "apart");
        auto const [found, is_new] = first.emplace(unit_of(item), item);
        require(is_new || found->second == item, "ownership_planner: items ", found->second,
                " and ", item, " are in one set of `apart` and go together; expected one of both");
        if (is_new) clique.push_back(unit_of(item));
      }
      if (clique.size() < 2) continue;
      auto const crowded = crowded_units{problem_}.find(clique);
      require(crowded.empty(), "ownership_planner: items ", first_items(crowded),
              " are apart, and may use fewer ranks than they are; expected one rank for each");
      for (auto const unit : clique)
        problem_.cliques_of[at(unit)].push_back(static_cast<int>(problem_.cliques.size()));
      problem_.cliques.push_back(std::move(clique));
    }
  }
  [[nodiscard]] std::string first_items(std::vector<int> units) const {
    std::ranges::sort(units);
    auto list = std::string{};
    for (auto const unit : units)
      list += text(list.empty() ? "" : ", ", problem_.first_item[at(unit)]);
    return list;
  }

  void add_groups() {
    for (auto const& set : constraints_->near) {
      auto group = std::vector<int>{};
      for (auto const item : set) {
        check(item, "near");
        group.push_back(unit_of(item));
      }
      std::ranges::sort(group);
      group.erase(std::unique(group.begin(), group.end()), group.end());
      require(!group.empty(), "ownership_planner: a set of 0 items in `near`; expected 1 or more");
      for (auto const unit : group)
        problem_.groups_of[at(unit)].push_back(static_cast<int>(problem_.groups.size()));
      problem_.groups.push_back(std::move(group));
    }
  }

  std::span<owned_item const> items_;
  topology const* topo_;
  ownership_constraints const* constraints_;
  std::span<rank_id const> before_;
  ownership_problem problem_;
};

}  // namespace fssdp::detail
