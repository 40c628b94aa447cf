// SPDX-License-Identifier: Apache-2.0
/// Algorithm 2 once more, written for the reader: every choice sums the loads and sorts its
/// candidates again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <tuple>
#include <vector>

#include "fssdp/placement/loads.hpp"
#include "fssdp/topology/topology.hpp"

namespace support {

/// Places experts one at a time.
class naive_sharding {
 public:
  __extension__ using wide = unsigned __int128;
  /// What decides between places of equal load before the lower id.
  enum class tie { fewer_free_slots, nothing };

  naive_sharding(std::span<fssdp::expert_loads const> loads, fssdp::topology const& topo)
      : loads_{loads}, topo_{topo} {
    auto const all = loads.size() * loads.front().size();
    auto const devices = static_cast<std::size_t>(topo.ranks());
    for (std::size_t device = 0; device < devices; ++device)
      free_.push_back(all / devices + (device < all % devices ? 1 : 0));
    owner_.assign(loads.size(), std::vector<int>(loads.front().size(), nobody));
  }

  /// First the node, then a device in it, by the same rule: lower load of this layer, then the tie
  /// rule, then the lower id; only where a slot is free.
  void place(std::size_t layer, std::size_t expert, tie rule) {
    auto nodes = std::vector<std::tuple<wide, std::size_t, int>>{};
    for (int node = 0; node < topo_.nodes(); ++node) {
      auto load = wide{0};
      auto free = std::size_t{0};
      for (auto const device : topo_.ranks_on(fssdp::node_id{node})) {
        load += load_of(layer, device);
        free += free_[device.index()];
      }
      if (free > 0) nodes.emplace_back(load, rule == tie::nothing ? 0 : free, node);
    }
    auto const node = fssdp::node_id{std::get<2>(*std::ranges::min_element(nodes))};
    auto devices = std::vector<std::tuple<wide, std::size_t, int>>{};
    for (auto const device : topo_.ranks_on(node)) {
      auto const free = free_[device.index()];
      if (free > 0)
        devices.emplace_back(load_of(layer, device), rule == tie::nothing ? 0 : free,
                             device.value());
    }
    auto const device = std::get<2>(*std::ranges::min_element(devices));
    owner_[layer][expert] = device;
    --free_[static_cast<std::size_t>(device)];
  }

  /// [layer][expert]
  [[nodiscard]] std::vector<std::vector<int>> const& owner() const { return owner_; }

 private:
  static constexpr int nobody = -1;

  [[nodiscard]] wide load_of(std::size_t layer, fssdp::rank_id device) const {
    auto sum = wide{0};
    for (std::size_t expert = 0; expert < owner_[layer].size(); ++expert)
      if (owner_[layer][expert] == device.value()) sum += loads_[layer][expert];
    return sum;
  }

  std::span<fssdp::expert_loads const> loads_;
  fssdp::topology const& topo_;
  std::vector<std::size_t> free_;        // [device], over all layers
  std::vector<std::vector<int>> owner_;  // [layer][expert]
};

/// The owner of every expert of every layer.
[[nodiscard]] inline std::vector<std::vector<int>> naive_algorithm_2(
    int t, std::span<fssdp::expert_loads const> loads, fssdp::topology const& topo) {
  // J of a layer: its t most loaded experts, of equals those of lower id. J': all others.
  auto const ranked = [&](std::size_t layer) {
    auto experts = std::vector<std::size_t>{};
    for (std::size_t expert = 0; expert < loads[layer].size(); ++expert) experts.push_back(expert);
    std::ranges::sort(experts, [&](auto a, auto b) {
      return loads[layer][a] != loads[layer][b] ? loads[layer][a] > loads[layer][b] : a < b;
    });
    return experts;
  };
  auto const j_size = std::min(static_cast<std::size_t>(t), loads.front().size());

  auto layers = std::vector<std::size_t>{};
  for (std::size_t layer = 0; layer < loads.size(); ++layer) layers.push_back(layer);
  auto const largest_of_others = [&](std::size_t layer) {
    auto const experts = ranked(layer);
    return j_size == experts.size() ? 0 : loads[layer][experts[j_size]];
  };
  std::ranges::sort(layers, [&](auto a, auto b) {
    auto const of_a = largest_of_others(a);
    auto const of_b = largest_of_others(b);
    return of_a != of_b ? of_a > of_b : a < b;
  });

  auto shards = naive_sharding{loads, topo};
  for (auto const layer : layers) {
    auto const experts = ranked(layer);
    for (auto i = j_size; i < experts.size(); ++i)
      shards.place(layer, experts[i], naive_sharding::tie::fewer_free_slots);
  }
  for (auto const layer : layers) {
    auto const experts = ranked(layer);
    for (std::size_t i = 0; i < j_size; ++i)
      shards.place(layer, experts[i], naive_sharding::tie::nothing);
  }
  return shards.owner();
}

}  // namespace support
