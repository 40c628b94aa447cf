// SPDX-License-Identifier: Apache-2.0
/// Clusters of nodes with eight ranks, from 32 ranks to 4,096, and loads on them.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>

#include "fssdp/all.hpp"
#include "zipf_loads.hpp"

/// A layer on a cluster; a node takes in and sends out up to `experts` experts, a rank has two
/// slots.
struct cluster_scene {
  fssdp::topology topo;
  fssdp::block_layout layout;
  fssdp::expert_loads loads;
  fssdp::materialization_budget budget;
  fssdp::token_demand demand;  ///< as expected from the loads

  explicit cluster_scene(benchmark::State const& state)
      : topo{{.nodes = static_cast<int>(state.range(1)) / 8,
              .ranks = static_cast<int>(state.range(1))}},
        layout{{.experts = static_cast<int>(state.range(0)),
                .ranks = static_cast<int>(state.range(1))}},
        loads{zipf_loads(static_cast<std::size_t>(state.range(0)))},
        budget{static_cast<int>(state.range(2)), static_cast<int>(state.range(2)), 2} {
    fssdp::detail::expect_demand(loads, topo, demand);
  }
  [[nodiscard]] fssdp::layer_rates rates() const {
    return {.forward_seconds_per_row = 4e-8, .token_bytes = 1536, .expert_bytes = 4718592};
  }
};

inline void clusters(benchmark::internal::Benchmark* of) {
  of->ArgNames({"experts", "ranks", "in"})->Unit(benchmark::kMicrosecond);
  of->Args({64, 32, 4})->Args({128, 128, 8})->Args({256, 256, 8});
  of->Args({512, 1024, 8})->Args({512, 4096, 8});
}
