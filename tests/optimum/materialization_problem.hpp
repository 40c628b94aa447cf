// SPDX-License-Identifier: Apache-2.0
/// A layer on a topology, and what a solver may do about it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "fssdp/cost/layer_cost.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/routing/balanced_routing.hpp"
#include "fssdp/routing/even_routing.hpp"
#include "fssdp/routing/token_counts.hpp"
#include "fssdp/solver/materialization_budget.hpp"
#include "fssdp/topology/topology.hpp"
#include "support/dice.hpp"

namespace optimum {

struct materialization_problem {
  fssdp::topology topo;
  fssdp::block_layout layout;
  std::vector<fssdp::rank_id> owners;  ///< [experts]
  fssdp::token_counts counts;          ///< the same of all ranks
  fssdp::layer_rates rates;
  fssdp::materialization_budget budget;

  /// What a placement costs when its tokens are routed. Gathers are hidden.
  template <class Routing>
  [[nodiscard]] double seconds(fssdp::placement const& where, Routing const& routing) const {
    auto const cost = fssdp::layer_cost{fssdp::token_traffic{counts, routing, topo},
                                        fssdp::port_loads{where, layout, topo}, rates, topo};
    return cost.compute_seconds + cost.token_seconds;
  }
  [[nodiscard]] double balanced_seconds(fssdp::placement const& where) const {
    return seconds(where, fssdp::balanced_routing{counts, where, topo});
  }
  [[nodiscard]] double even_seconds(fssdp::placement const& where) const {
    return seconds(where, fssdp::even_routing{where, topo});
  }
};

/// What random problems are like.
struct problem_shape {
  int nodes = 1;
  int ranks_on_node = 1;
  int experts = 1;
  int budget = 1;  ///< experts into and out of every node
  int slots = 1;
};

/// Zipf loads; networks and devices as those of the paper's clusters: a token is as expensive on
/// its way between nodes as on a device, or four times cheaper or dearer.
[[nodiscard]] inline materialization_problem make_problem(support::dice& draw,
                                                          problem_shape const& of) {
  auto const ranks = of.nodes * of.ranks_on_node;
  auto const skew = draw.between(4, 14) / 10.0;
  auto loads = std::vector<std::uint64_t>{};
  for (int e = 0; e < of.experts; ++e)
    loads.push_back(static_cast<std::uint64_t>(1e5 / std::pow(e + 1, skew)));
  draw.shuffle(loads);
  auto counts = std::vector<std::uint64_t>{};
  for (int rank = 0; rank < ranks; ++rank)
    for (auto const load : loads) counts.push_back(load / static_cast<std::uint64_t>(ranks));
  auto const ports =
      fssdp::port_bandwidth{.inside_bytes_per_second = 300e9,
                            .between_bytes_per_second = draw.chance(50) ? 12.5e9 : 50e9};
  auto const layout = fssdp::block_layout{{.experts = of.experts, .ranks = ranks}};
  auto owners = std::vector<fssdp::rank_id>{};
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(of.experts))
    owners.push_back(layout.owner(expert));
  return {.topo = fssdp::topology{{.nodes = of.nodes,
                                   .ranks = ranks,
                                   .ports = ports,
                                   .network = fssdp::network_interface::per_node}},
          .layout = layout,
          .owners = std::move(owners),
          .counts = {ranks, of.experts, std::move(counts)},
          .rates = {.forward_seconds_per_row = draw.chance(50) ? 1e-7 : 4e-8,
                    .token_bytes = 1536,
                    .expert_bytes = 4718592,
                    .window_seconds = 1},
          .budget = {of.budget, of.budget, of.slots}};
}

}  // namespace optimum
