// SPDX-License-Identifier: Apache-2.0
/// The best owners that items can have, as a mixed integer program.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fssdp/solver/ownership_planner.hpp"
#include "fssdp/topology/topology.hpp"
#include "optimum/mixed_integer_program.hpp"
#include "support/random_items.hpp"

namespace optimum {

/// Fullness and price as ownership_planner has them, written down from what it promises.
class best_ownership {
 public:
  best_ownership(support::random_items const& of, fssdp::ownership_planner const& asked)
      : of_{of}, asked_{asked} {
    fullest_ = program_.add_real(1);
    moved_ = program_.add_real(asked.price_per_byte * unit);
    for (std::size_t i = 0; i < of.items.size(); ++i) add_item();
    add_constraints();
    limit_places();
    count_moves();
  }

  [[nodiscard]] mixed_integer_program::outcome solve(double gap, double seconds) const {
    return program_.solve(gap, seconds);
  }

 private:
  using terms = std::vector<mixed_integer_program::term>;
  static constexpr auto unit = double{1 << 20};  // bytes, so that numbers are of like size

  [[nodiscard]] fssdp::index_range<fssdp::rank_id> ranks() const {
    return fssdp::first_n<fssdp::rank_id>(of_.topo.ranks());
  }
  [[nodiscard]] int owns(fssdp::rank_id rank, fssdp::item_id item) const {
    return owned_[item.index()][rank.index()];
  }

  void add_item() {
    auto sum = terms{};
    auto& choices = owned_.emplace_back();
    for ([[maybe_unused]] auto const rank : ranks()) {
      choices.push_back(program_.add_choice());
      sum.push_back({choices.back(), 1});
    }
    program_.equal(sum, 1);
  }

  void add_constraints() {
    auto const& asked = of_.constraints;
    for (auto const& set : asked.together)
      for (auto const item : set)
        for (auto const rank : ranks())
          if (item != set.front())
            program_.equal({{owns(rank, item), 1}, {owns(rank, set.front()), -1}}, 0);
    for (auto const& set : asked.apart)
      for (auto const rank : ranks()) {
        auto sum = terms{};
        for (auto const item : set) sum.push_back({owns(rank, item), 1});
        program_.at_most(sum, 1);
      }
    for (auto const& [item, list] : asked.on_ranks) {
      auto sum = terms{};
      for (auto const rank : ranks())  // a rank may be listed twice
        if (std::ranges::count(list, rank) > 0) sum.push_back({owns(rank, item), 1});
      program_.equal(sum, 1);
    }
    for (auto const item : asked.same_node) {
      auto sum = terms{};
      for (auto const rank : of_.topo.ranks_on(of_.topo.node(of_.before[item.index()])))
        sum.push_back({owns(rank, item), 1});
      program_.equal(sum, 1);
    }
  }

  void limit_places() {
    auto const count = static_cast<double>(of_.topo.ranks());
    auto const& w = asked_.weights;
    auto bandwidth = 0.0;
    for (auto const node : fssdp::first_n<fssdp::node_id>(of_.topo.nodes()))
      bandwidth += fssdp::node_bandwidth(of_.topo, node);
    auto const limit = [&](double weight, auto amount) {
      auto total = 0.0;
      for (auto const& item : of_.items) total += static_cast<double>(amount(item));
      if (total <= 0 || weight <= 0) return;
      for (auto const rank : ranks()) limit_place({rank}, weight * count / total, amount);
    };
    auto const limit_interfaces = [&](double weight, auto amount) {
      auto total = 0.0;
      for (auto const& item : of_.items) total += static_cast<double>(amount(item));
      if (total <= 0 || weight <= 0 || of_.topo.nodes() < 2) return;
      for (auto const through : ranks()) {
        if (of_.topo.interface_of(through) != through) continue;
        auto behind = std::vector<fssdp::rank_id>{};
        for (auto const rank : ranks())
          if (of_.topo.interface_of(rank) == through) behind.push_back(rank);
        auto const own = of_.topo.port(through).between_bytes_per_second;
        limit_place(behind, weight * bandwidth / own / total, amount);
      }
    };
    auto const bytes = [](fssdp::owned_item const& item) { return item.bytes; };
    auto const load = [](fssdp::owned_item const& item) { return item.load; };
    limit(w.bytes, bytes);
    limit(w.step_cost, [](fssdp::owned_item const& item) { return item.step_cost; });
    limit(w.load, load);
    limit_interfaces(w.bytes * w.interface, bytes);
    limit_interfaces(w.load * w.interface, load);
  }
  template <class Amount>
  void limit_place(std::vector<fssdp::rank_id> const& behind, double scale, Amount amount) {
    auto sum = terms{{fullest_, -1}};
    for (std::size_t i = 0; i < of_.items.size(); ++i)
      for (auto const rank : behind)
        sum.push_back(
            {owns(rank, fssdp::item_id{i}), static_cast<double>(amount(of_.items[i])) * scale});
    program_.at_most(sum, 0);
  }

  void count_moves() {
    auto sum = terms{{moved_, -1}};
    for (std::size_t i = 0; i < of_.before.size(); ++i)
      for (auto const rank : ranks())
        if (of_.before[i].value() >= 0 && rank != of_.before[i])
          sum.push_back(
              {owns(rank, fssdp::item_id{i}), static_cast<double>(of_.items[i].bytes) / unit});
    program_.at_most(sum, 0);
  }

  support::random_items const& of_;
  fssdp::ownership_planner asked_;
  mixed_integer_program program_;
  std::vector<std::vector<int>> owned_;  // [items, ranks]: choice
  int fullest_ = 0;
  int moved_ = 0;
};

}  // namespace optimum
