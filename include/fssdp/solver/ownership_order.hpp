// SPDX-License-Identifier: Apache-2.0
/// A canonical order of units and ranks, so that results do not depend on their numbering.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "fssdp/solver/ownership_problem.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp::detail {

/// Numbers the units of a problem by size, and its ranks and nodes by their ports and by the lists
/// of ranks that they are in. Where two are equal in all of that, the original numbers decide: for
/// ranks, only between those that constraints and topology treat alike. Previous owners do not
/// count here, so that items without previous owners get the same owners.
/// @cost O(n log n) for units, ranks, and what all lists have together
class ownership_order {
 public:
  explicit ownership_order(ownership_problem& of) : of_{&of} {}

  void apply(topology const& topo) {
    order_units();
    order_ranks(topo);
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] static std::vector<int> numbers(std::size_t count) {
    auto all = std::vector<int>(count);
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  /// @return [old] = new
  [[nodiscard]] static std::vector<int> inverse(std::vector<int> const& order) {
    auto places = std::vector<int>(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) places[at(order[i])] = static_cast<int>(i);
    return places;
  }
  /// @param order [new] = old
  template <class Value>
  static void permute(std::vector<Value>& values, std::vector<int> const& order) {
    if (values.empty()) return;
    auto moved = std::vector<Value>{};
    moved.reserve(values.size());
    for (auto const old : order) moved.push_back(std::move(values[at(old)]));
    values = std::move(moved);
  }
  static void rename(std::vector<int>& members, std::vector<int> const& places) {
    for (auto& member : members) member = places[at(member)];
    std::ranges::sort(members);
  }

  void order_units() {
    auto order = numbers(of_->size.size());
    std::ranges::stable_sort(order,
                             [&](int a, int b) { return of_->size[at(a)] > of_->size[at(b)]; });
    if (std::ranges::is_sorted(order)) return;
    permute(of_->first_item, order);
    permute(of_->size, order);
    permute(of_->former_owners, order);
    permute(of_->list_of, order);
    permute(of_->cliques_of, order);
    permute(of_->groups_of, order);
    auto const places = inverse(order);
    for (auto& unit : of_->unit_of) unit = places[at(unit)];
    for (auto& clique : of_->cliques) rename(clique, places);
    for (auto& group : of_->groups) rename(group, places);
  }

  void order_ranks(topology const& topo) {
    auto const signs = signs_of_ranks(topo);
    auto const is_before = [&](int a, int b) { return signs[at(a)] < signs[at(b)]; };
    for (auto& ranks : of_->ranks_on) std::ranges::stable_sort(ranks, is_before);
    std::ranges::stable_sort(of_->ranks_on, [&](auto const& a, auto const& b) {
      if (a.size() != b.size()) return a.size() < b.size();
      return std::ranges::lexicographical_compare(a, b, is_before);
    });
    of_->rank_name.clear();
    for (std::size_t node = 0; node < of_->ranks_on.size(); ++node)
      for (auto& rank : of_->ranks_on[node]) {
        of_->node_of[of_->rank_name.size()] = static_cast<int>(node);
        of_->rank_name.push_back(std::exchange(rank, static_cast<int>(of_->rank_name.size())));
      }
    auto const places = inverse(of_->rank_name);
    for (auto& list : of_->lists) rename(list, places);
    for (auto& former_owners : of_->former_owners) {
      for (auto& former : former_owners) former.rank = places[at(former.rank)];
      std::ranges::sort(former_owners, {}, &ownership_problem::former_owner::rank);
    }
  }

  /// What distinguishes a rank: the bandwidth to other nodes, and the first unit of each list that
  /// it is in.
  [[nodiscard]] std::vector<std::vector<std::uint64_t>> signs_of_ranks(topology const& topo) const {
    auto signs = std::vector<std::vector<std::uint64_t>>(of_->node_of.size());
    for (auto const rank : first_n<rank_id>(topo.ranks()))
      signs[rank.index()] = {std::bit_cast<std::uint64_t>(
          topo.port(topo.interface_of(rank)).between_bytes_per_second)};
    auto is_seen = std::vector<bool>(of_->lists.size());
    for (int unit = 0; unit < of_->units(); ++unit) {
      auto const which = of_->list_of[at(unit)];
      if (which < 0 || is_seen[at(which)]) continue;
      is_seen[at(which)] = true;
      for (auto const rank : of_->lists[at(which)])
        signs[at(rank)].push_back(static_cast<std::uint64_t>(unit));
    }
    return signs;
  }

  ownership_problem* of_;
};

}  // namespace fssdp::detail
