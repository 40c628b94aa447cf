// SPDX-License-Identifier: Apache-2.0
/// Random items, constraints that can hold, and owners of before, from one seed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/solver/ownership_planner.hpp"
#include "fssdp/topology/topology.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"

namespace support {

/// What an ownership_planner is asked. Constraints are read off hidden owners, so that there are
/// some. Edges are frequent: one rank, one item, amounts that nothing has, items without owners.
struct random_items {
  struct limits {
    int ranks = 12;
    int items = 40;
    bool even = false;  ///< many items for each of several ranks, none of which is too large
  };

  fssdp::topology topo;
  std::vector<fssdp::owned_item> items;
  std::vector<fssdp::rank_id> hidden;  ///< [items]: owners that all constraints allow
  std::vector<fssdp::rank_id> before;  ///< [items], or empty
  fssdp::ownership_constraints constraints;

  explicit random_items(std::uint64_t seed) : random_items{dice{seed}, {}} {}
  random_items(dice draw, limits const& of) {
    auto const ranks = draw.between(of.even ? 2 : 1, of.ranks);
    auto const nodes = draw.between(1, std::min(4, ranks));
    topo = fssdp::topology{{.nodes = nodes,
                            .ranks = ranks,
                            .network = draw.chance(50) ? fssdp::network_interface::per_node
                                                       : fssdp::network_interface::per_rank}};
    auto const count = of.even ? of.items : draw.between(1, of.items);
    for (int i = 0; i < count; ++i)
      items.push_back(random_item(draw, of.even ? draw.between(0, 1) : draw.between(0, 3)));
    for (int i = 0; i < count; ++i) hidden.emplace_back(draw.between(0, ranks - 1));
    if (draw.chance(60))
      for (auto const owner : hidden) {
        auto const on_node = topo.ranks_on(topo.node(owner));
        auto const index = draw.between(0, static_cast<int>(on_node.size()) - 1);
        before.push_back(draw.chance(10)   ? fssdp::rank_id{-1}
                         : draw.chance(50) ? on_node[static_cast<std::size_t>(index)]
                                           : fssdp::rank_id{draw.between(0, ranks - 1)});
      }
    if (!of.even && draw.chance(60)) constrain(draw);
  }

 private:
  static fssdp::owned_item random_item(dice& draw, int kind) {
    auto const number = [&](int most) { return static_cast<std::uint64_t>(draw.between(0, most)); };
    auto const mebi = std::uint64_t{1} << 20U;
    switch (kind) {
      case 0:  // an expert
        return {number(8) * mebi + 4 * mebi, number(1000) + 100, number(5000)};
      case 1:  // a matrix that is orthogonalized whole
        return {number(32) * mebi + mebi, number(9000) + 100, 0};
      case 2:  // a norm, a bias
        return {number(64) * 1024, number(4), 0};
      default:
        return {draw.chance(20) ? 0 : number(100) * mebi, draw.chance(20) ? 0 : number(2000), 0};
    }
  }

  [[nodiscard]] std::vector<fssdp::item_id> some_items(dice& draw) {
    auto list = std::vector<fssdp::item_id>{};
    auto const count = draw.between(1, 4);
    for (int i = 0; i < count; ++i)
      list.emplace_back(draw.between(0, static_cast<int>(items.size()) - 1));
    return list;
  }

  void constrain(dice& draw) {
    auto const owner = [&](fssdp::item_id item) { return hidden[item.index()]; };
    for (auto sets = draw.between(0, 3); sets > 0; --sets) {
      auto together = some_items(draw);
      auto const first = owner(together.front());
      std::erase_if(together, [&](auto item) { return owner(item) != first; });
      constraints.together.push_back(std::move(together));
      auto apart = std::vector<fssdp::item_id>{};
      for (auto const item : some_items(draw))
        if (std::ranges::none_of(apart, [&](auto other) { return owner(other) == owner(item); }))
          apart.push_back(item);
      constraints.apart.push_back(std::move(apart));
      constraints.near.push_back(some_items(draw));
      auto const item = some_items(draw).front();
      auto ranks = std::vector{owner(item)};
      for (auto more = draw.between(0, 3); more > 0; --more)
        ranks.emplace_back(draw.between(0, topo.ranks() - 1));
      draw.shuffle(ranks);
      constraints.on_ranks.push_back({item, std::move(ranks)});
      for (auto const stays : some_items(draw))
        if (!before.empty() && before[stays.index()].value() >= 0 &&
            topo.same_node(before[stays.index()], owner(stays)))
          constraints.same_node.push_back(stays);
    }
  }
};

/// Calls law(items) for many seeds; a failure prints the seed.
template <class Law>
void for_random_items(Law law) {
  for (auto seed = std::uint64_t{1}; seed <= std::uint64_t{law_instances}; ++seed) {
    CAPTURE(seed);
    law(random_items{seed});
  }
}

}  // namespace support
