// SPDX-License-Identifier: Apache-2.0
/// Algorithm 2.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/core/inline.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/solver/heterogeneous_sharding.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

namespace detail {

/// The tie rule between ranks or nodes of equal load: fewer free slots, then the id; or only the
/// id.
enum class place_tie { free_slots, id };

/// The load of one layer on each rank and node.
struct rank_loads {
  __extension__ typedef unsigned __int128 wide;  // sums never overflow

  explicit rank_loads(topology const& of)
      : topo{&of},
        on_rank(static_cast<std::size_t>(of.ranks())),
        on_node(static_cast<std::size_t>(of.nodes())) {}
  void add(rank_id rank, std::uint64_t load) {
    on_rank[rank.index()] += load;
    on_node[topo->node(rank).index()] += load;
  }
  topology const* topo;
  std::vector<wide> on_rank;
  std::vector<wide> on_node;
};

/// The free slots of all ranks, over all layers.
class free_places {
 public:
  free_places(topology const& topo, std::size_t experts) : topo_{topo} {
    auto const ranks = static_cast<std::size_t>(topo.ranks());
    on_node_.resize(static_cast<std::size_t>(topo.nodes()));
    for (auto const rank : first_n<rank_id>(topo.ranks())) {
      on_rank_.push_back(experts / ranks + (rank.index() < experts % ranks ? 1 : 0));
      on_node_[topo.node(rank).index()] += on_rank_.back();
    }
  }

  /// Takes a slot on the least loaded rank of the least loaded node that have one.
  rank_id take(rank_loads const& load, place_tie tie_rule) {
    auto const node =
        least<node_id>(first_n<node_id>(topo_.nodes()), load.on_node, on_node_, tie_rule);
    auto const rank = least<rank_id>(topo_.ranks_on(node), load.on_rank, on_rank_, tie_rule);
    --on_rank_[rank.index()];
    --on_node_[node.index()];
    return rank;
  }

 private:
  template <class Place, class Places>
  static Place least(Places const& places, std::vector<rank_loads::wide> const& load,
                     std::vector<std::size_t> const& free, place_tie tie_rule) {
    auto best = Place{*places.begin()};
    auto const key = [&](Place place) {
      auto const slots = tie_rule == place_tie::free_slots ? free[place.index()] : std::size_t{0};
      return std::tuple{free[place.index()] == 0, load[place.index()], slots, place.value()};
    };
    for (auto const place : places)
      if (key(place) < key(best)) best = place;
    return best;
  }

  topology const& topo_;
  std::vector<std::size_t> on_rank_;
  std::vector<std::size_t> on_node_;
};

/// The layers in the order of their largest load among experts without replicas, largest first.
[[nodiscard]] inline std::vector<std::size_t> layer_order(
    std::span<expert_loads const> loads, std::vector<std::vector<expert_id>> const& orders,
    std::size_t replicated) {
  auto const largest = [&](std::size_t layer) {
    auto const& order = orders[layer];
    return replicated < order.size() ? loads[layer][order[replicated].index()] : 0;
  };
  auto sequence = std::vector<std::size_t>(loads.size());
  std::iota(sequence.begin(), sequence.end(), std::size_t{0});
  std::ranges::stable_sort(sequence, [&](auto a, auto b) { return largest(a) > largest(b); });
  return sequence;
}

}  // namespace detail

FSSDP_INLINE std::vector<table_layout> heterogeneous_sharding::operator()(
    std::span<expert_loads const> loads, topology const& topo) const {
  detail::require(!loads.empty(), "heterogeneous_sharding: 0 layers; expected 1 or more");
  detail::require(topo.ranks() >= 1, "heterogeneous_sharding: a topology of 0 ranks; expected ",
                  "1 or more");
  detail::require(overlap >= 0, "heterogeneous_sharding: overlap is ", overlap,
                  "; expected 0 or more");
  auto const experts = loads.front().size();
  detail::require(experts >= 1, "heterogeneous_sharding: 0 experts; expected 1 or more");
  for (auto const& layer : loads)
    detail::require(layer.size() == experts, "heterogeneous_sharding: loads of ", layer.size(),
                    " experts; expected ", experts, " as in the first layer");

  auto places = detail::free_places{topo, loads.size() * experts};
  auto const replicated = std::min(static_cast<std::size_t>(overlap), experts);
  auto orders = std::vector<std::vector<expert_id>>{};
  for (auto const& layer : loads) orders.push_back(by_load(layer));
  auto owners = std::vector(loads.size(), std::vector<rank_id>(experts));
  auto load_on = std::vector(loads.size(), detail::rank_loads{topo});
  auto const settle = [&](std::size_t layer, std::span<expert_id const> list, auto tie_rule) {
    for (auto const expert : list) {
      auto const rank = places.take(load_on[layer], tie_rule);
      owners[layer][expert.index()] = rank;
      load_on[layer].add(rank, loads[layer][expert.index()]);
    }
  };
  auto const sequence = detail::layer_order(loads, orders, replicated);
  for (auto const layer : sequence)
    settle(layer, std::span{orders[layer]}.subspan(replicated), detail::place_tie::free_slots);
  for (auto const layer : sequence)
    settle(layer, std::span{orders[layer]}.first(replicated), detail::place_tie::id);

  auto layouts = std::vector<table_layout>{};
  for (auto& of_layer : owners)
    layouts.emplace_back(table_layout::shape{.ranks = topo.ranks()}, std::move(of_layer));
  return layouts;
}

}  // namespace fssdp
