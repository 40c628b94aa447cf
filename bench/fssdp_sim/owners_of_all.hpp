// SPDX-License-Identifier: Apache-2.0
/// Who owns what of the whole model, where experts and matrices have one owner each.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/core/index.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/solver/ownership_planner.hpp"
#include "model.hpp"
#include "simulate.hpp"

namespace sim {

/// Owners in numbers.
struct owner_figures {
  fssdp::owned_item most = {};  ///< bytes, step cost and load: of the rank that has most of each
  double bytes_over_mean = 0;
  double step_cost_over_mean = 0;
  double load_over_mean = 0;
};

/// What fssdp::ownership_planner says for a model, beside owners in blocks.
struct owners_of_all {
  std::size_t experts = 0;  ///< of all layers
  std::size_t matrices = 0;
  double bytes = 0;  ///< of all
  owner_figures blocks = {};
  owner_figures planned = {};
  fssdp::ownership_plan plan = {};  ///< experts layer by layer, then matrices
};

namespace detail {

/// FLOP of five steps of Newton and Schulz on a matrix [rows, columns], which an optimizer such as
/// Muon makes of all of it: with X of so few rows as it can have, each has X X', its square and one
/// product more.
[[nodiscard]] inline double orthogonalization_flops(double rows, double columns) {
  auto const few = std::min(rows, columns);
  auto const many = std::max(rows, columns);
  return 5 * (4 * few * few * many + 2 * few * few * few);
}

/// Matrices of d_model rows each: 16-bit parameters, and 6 times as much of optimizer state.
[[nodiscard]] inline fssdp::owned_item matrices_as_item(model_shape const& of, int matrices,
                                                        double parameters) {
  auto const flops =
      matrices * orthogonalization_flops(of.d_model, parameters / matrices / of.d_model);
  return {.bytes = static_cast<std::uint64_t>(std::llround(2 * 7 * parameters)),
          .step_cost = static_cast<std::uint64_t>(std::llround(flops))};
}

/// The mean load of each expert of a simulated layer over the iterations that count.
[[nodiscard]] inline std::vector<double> mean_loads(scenario const& of, std::size_t layer) {
  auto mean = std::vector<double>(static_cast<std::size_t>(of.where->experts));
  for (auto const sample : of.samples)
    for (std::size_t e = 0; e < mean.size(); ++e)
      mean[e] += static_cast<double>((*of.loads)[sample].layers[layer][e]) /
                 static_cast<double>(of.samples.size());
  return mean;
}

/// The experts of all layers; of one that is not simulated with the loads of the one before it that
/// is.
[[nodiscard]] inline std::vector<fssdp::owned_item> experts_as_items(scenario const& of) {
  auto const& model = *of.where->model;
  auto const expert = matrices_as_item(model, model.matrices, expert_parameters(model));
  auto items = std::vector<fssdp::owned_item>{};
  auto simulated = std::size_t{0};
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(of.where->layers); ++layer) {
    while (simulated + 1 < of.layer_ids.size() && of.layer_ids[simulated + 1] <= layer) ++simulated;
    for (auto const load : mean_loads(of, simulated)) {
      items.push_back(expert);
      items.back().load = static_cast<std::uint64_t>(std::llround(load));
    }
  }
  return items;
}

/// Four of attention in each layer, three of shared experts, three of layers without experts, each
/// an item.
[[nodiscard]] inline std::vector<fssdp::owned_item> matrices_as_items(scenario const& of) {
  auto const& model = *of.where->model;
  auto items = std::vector<fssdp::owned_item>{};
  auto const add = [&](int matrices, double parameters) {
    if (parameters > 0)
      items.insert(items.end(), static_cast<std::size_t>(matrices),
                   matrices_as_item(model, 1, parameters / matrices));
  };
  for (int layer = 0; layer < of.where->layers; ++layer) {
    add(4, model.attention_parameters);
    add(3, model.shared_parameters);
  }
  for (int layer = 0; layer < model.dense_layers; ++layer) {
    add(4, model.attention_parameters);
    add(3, model.dense_parameters);
  }
  return items;
}

/// Appends owners of so many items in blocks.
inline void append_blocks(std::vector<fssdp::rank_id>& owners, int items, int ranks) {
  if (items == 0) return;
  auto const layout = fssdp::block_layout{{.experts = items, .ranks = ranks}};
  for (auto const item : fssdp::first_n<fssdp::expert_id>(items))
    owners.push_back(layout.owner({item, fssdp::slice_id{0}}));
}

[[nodiscard]] inline owner_figures figures_of(std::span<fssdp::owned_item const> items,
                                              std::span<fssdp::rank_id const> owners, int ranks) {
  auto figures = owner_figures{};
  auto const over_mean = [&](std::uint64_t fssdp::owned_item::*amount) {
    auto sums = std::vector<std::uint64_t>(static_cast<std::size_t>(ranks));
    auto all = 0.0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      sums[owners[i].index()] += items[i].*amount;
      all += static_cast<double>(items[i].*amount);
    }
    figures.most.*amount = std::ranges::max(sums);
    return all > 0 ? static_cast<double>(figures.most.*amount) * ranks / all : 0;
  };
  figures.bytes_over_mean = over_mean(&fssdp::owned_item::bytes);
  figures.step_cost_over_mean = over_mean(&fssdp::owned_item::step_cost);
  figures.load_over_mean = over_mean(&fssdp::owned_item::load);
  return figures;
}

}  // namespace detail

/// Plans owners for all experts and matrices. Before, experts are in blocks, layer by layer, and
/// matrices in blocks; to move all bytes is worth as much as what is fair on one rank.
[[nodiscard]] inline owners_of_all plan_owners(scenario const& of) {
  auto const& topo = of.where->topology;
  auto items = detail::experts_as_items(of);
  auto const matrices = detail::matrices_as_items(of);
  auto found = owners_of_all{.experts = items.size(), .matrices = matrices.size()};
  items.insert(items.end(), matrices.begin(), matrices.end());
  for (auto const& item : items) found.bytes += static_cast<double>(item.bytes);
  auto before = std::vector<fssdp::rank_id>{};
  for (int layer = 0; layer < of.where->layers; ++layer)
    detail::append_blocks(before, of.where->experts, topo.ranks());
  detail::append_blocks(before, static_cast<int>(matrices.size()), topo.ranks());
  // If the sizes of the model are not known, there are no bytes.
  auto const price = found.bytes > 0 ? 1 / found.bytes : 0.0;
  auto const solve = fssdp::ownership_planner{.price_per_byte = price};
  found.plan = solve(items, topo, {}, before);
  found.blocks = detail::figures_of(items, before, topo.ranks());
  found.planned = detail::figures_of(items, found.plan.owners, topo.ranks());
  return found;
}

}  // namespace sim
