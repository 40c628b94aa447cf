// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/placement/physical_experts.hpp"
#include "fssdp/plan/slot_moves.hpp"
#include "fssdp/solver/expert_load_balancer.hpp"
#include "fssdp/solver/heterogeneous_sharding.hpp"
#include "fssdp/solver/incremental_load_balancer.hpp"
#include "fssdp/solver/resharding.hpp"
#include "module.hpp"

namespace python {
namespace {

using fssdp::table_layout;

integers<2> layer_array(std::span<fssdp::expert_loads const> layers) {
  auto values = std::vector<std::int64_t>{};
  for (auto const& layer : layers) values.insert(values.end(), layer.begin(), layer.end());
  auto const shape = std::array{layers.size(), layers.front().size()};
  return as_array(std::move(values), shape);
}

/// A sharding solver that is a callable of Python's.
struct called_sharding {
  nb::object solve = {};
  std::vector<table_layout> operator()(std::span<fssdp::expert_loads const> loads,
                                       fssdp::topology const& topo) const {
    return nb::cast<std::vector<table_layout>>(solve(layer_array(loads), topo));
  }
};
/// A placement solver that is a callable of Python's.
struct called_placement {
  nb::object solve = {};
  fssdp::placement operator()(std::span<std::uint64_t const> loads,
                              table_layout const& layout) const {
    return nb::cast<fssdp::placement>(solve(token_array(loads), layout));
  }
};

/// Loads of any scale as whole numbers: as they are if they are whole; else times a power of two, so
/// that the largest has 52 bits.
fssdp::expert_loads whole_loads(std::span<double const> weights) {
  auto largest = 0.0;
  auto all_whole = true;
  for (auto const weight : weights) {
    fssdp::detail::require(weight >= 0 && weight < 0x1p63, "weight: ", weight,
                           "; expected loads from 0 to less than 2^63");
    largest = std::max(largest, weight);
    all_whole = all_whole && weight == std::floor(weight);
  }
  auto const scale = all_whole ? 0 : 51 - std::ilogb(largest);
  auto loads = fssdp::expert_loads{};
  for (auto const weight : weights)
    loads.push_back(static_cast<std::uint64_t>(std::floor(std::ldexp(weight, scale))));
  return loads;
}

using weight_array = nb::ndarray<double const, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

/// EPLB's three tables: physical_to_logical [layers, replicas], logical_to_physical
/// [layers, experts, most slots of an expert], filled up with -1, and counts [layers, experts].
nb::tuple rebalance_experts(weight_array const& weight, int replicas, int groups, int nodes,
                            int gpus) {
  auto const layers = weight.shape(0);
  auto const experts = weight.shape(1);
  auto const hierarchical = nodes >= 1 && groups % nodes == 0;
  auto const solve = fssdp::expert_load_balancer{
      .replicas = replicas,
      .groups = hierarchical ? groups : 1,
      .topology = fssdp::topology{{.nodes = hierarchical ? nodes : 1, .ranks = gpus}}};
  auto slots = std::vector<std::int64_t>{};
  auto counts = std::vector<std::int64_t>{};
  auto all = std::vector<fssdp::physical_experts>{};
  auto most = std::int64_t{0};
  {
    auto const released = nb::gil_scoped_release{};
    for (std::size_t layer = 0; layer < layers; ++layer) {
      auto const& found =
          all.emplace_back(solve(whole_loads({weight.data() + layer * experts, experts})));
      for (auto const expert : found.physical_to_logical()) slots.push_back(expert.value());
      for (auto const expert : fssdp::first_n<fssdp::expert_id>(found.experts()))
        most = std::max(most, counts.emplace_back(found.logical_count(expert)));
    }
  }
  auto const width = static_cast<std::size_t>(most);
  auto physical = std::vector<std::int64_t>(layers * experts * width, -1);
  auto row = physical.begin();
  for (auto const& layer : all)
    for (auto const expert : fssdp::first_n<fssdp::expert_id>(layer.experts())) {
      std::ranges::transform(layer.logical_to_physical(expert), row,
                             [](fssdp::physical_id slot) { return slot.value(); });
      row += most;
    }
  auto const slots_shape = std::array{layers, static_cast<std::size_t>(replicas)};
  auto const physical_shape = std::array{layers, experts, width};
  auto const counts_shape = std::array{layers, experts};
  return nb::make_tuple(as_array(std::move(slots), slots_shape),
                        as_array(std::move(physical), physical_shape),
                        as_array(std::move(counts), counts_shape));
}

using slot_array = nb::ndarray<std::int64_t const, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

/// The map of one layer.
fssdp::physical_experts map_of(slot_array const& slots, std::size_t layer, int experts, int gpus) {
  auto logical = std::vector<fssdp::expert_id>{};
  for (std::size_t slot = 0; slot < slots.shape(1); ++slot) {
    auto const expert = slots(layer, slot);
    fssdp::detail::require(expert >= 0 && expert < experts, "physical_to_logical_map: expert ",
                           expert, " in slot ", slot, " of layer ", layer, "; expected 0 to ",
                           experts - 1);
    logical.push_back(fssdp::expert_id{static_cast<int>(expert)});
  }
  return {{.experts = experts, .ranks = gpus}, std::move(logical)};
}

/// The next map of each layer [layers, replicas], from the one in place.
auto renew_experts(slot_array const& before, weight_array const& weight, int groups, int nodes,
                   int gpus, double balance, int most_changes) {
  auto const layers = weight.shape(0);
  auto const experts = static_cast<int>(weight.shape(1));
  auto const solve = fssdp::incremental_load_balancer{
      .balance = balance,
      .most_changes = most_changes,
      .groups = groups,
      .topology = fssdp::topology{{.nodes = nodes, .ranks = gpus}}};
  auto slots = std::vector<std::int64_t>{};
  for (std::size_t layer = 0; layer < layers; ++layer) {
    auto const row = std::span{weight.data() + layer * weight.shape(1), weight.shape(1)};
    auto const next = solve(map_of(before, layer, experts, gpus), whole_loads(row));
    for (auto const expert : next.physical_to_logical()) slots.push_back(expert.value());
  }
  return as_array(std::move(slots), std::array{layers, before.shape(1)});
}

/// The moves of one layer, [moves, 6]: expert, from, to, round, placed, waits; and the scratch slots.
nb::tuple slot_moves_of(slot_array const& before, slot_array const& after, int experts, int nodes,
                        int gpus, int group_size, int scratch_slots) {
  auto const moves =
      fssdp::slot_moves{map_of(before, 0, experts, gpus),
                        map_of(after, 0, experts, gpus),
                        {.topology = fssdp::topology{{.nodes = nodes, .ranks = gpus}},
                         .group_size = group_size,
                         .scratch_slots = scratch_slots}};
  auto rows = std::vector<std::int64_t>{};
  for (auto const& move : moves.moves())
    for (auto const value : {move.expert.value(), move.from.value(), move.to.value(), move.round,
                             move.placed, move.waits ? 1 : 0})
      rows.push_back(value);
  auto const shape = std::array{moves.moves().size(), std::size_t{6}};
  return nb::make_tuple(as_array(std::move(rows), shape), moves.rounds(), moves.scratch_slots());
}

}  // namespace

void add_sharding(nb::module_& to) {
  to.def("heterogeneous_sharding",
         [](array_like const& loads, fssdp::topology const& topo, int overlap) {
           return fssdp::heterogeneous_sharding{.overlap = overlap}(read_layer_loads(loads), topo);
         });
  to.def(
      "resharding", [](std::vector<table_layout> const& current, array_like const& loads,
                       fssdp::topology const& topo, nb::object sharding, nb::object materialization,
                       double seconds_per_row, std::size_t chunk_bytes, int iterations) {
        auto const solve = fssdp::resharding<called_sharding, called_placement>{
            .sharding = {std::move(sharding)},
            .materialization = {std::move(materialization)},
            .seconds_per_row = seconds_per_row,
            .chunk_bytes = chunk_bytes,
            .iterations = iterations};
        auto const verdict = solve(current, read_layer_loads(loads), topo);
        return nb::make_tuple(verdict.layouts.has_value() ? nb::cast(*verdict.layouts) : nb::none(),
                              verdict.gained_seconds, verdict.moved_seconds, verdict.moved_bytes);
      });
  to.def("expert_load_balancer",
         [](array_like const& loads, int replicas, int groups, fssdp::topology const& topo) {
           return fssdp::expert_load_balancer{
               .replicas = replicas, .groups = groups, .topology = topo}(read_loads(loads));
         });
  to.def("rebalance_experts", rebalance_experts);
  to.def("renew_experts", renew_experts);
  to.def("slot_moves", slot_moves_of);
}

}  // namespace python
