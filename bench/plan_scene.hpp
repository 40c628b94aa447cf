// SPDX-License-Identifier: Apache-2.0
/// The topologies and placements for which plans are made.
#pragma once

#include <benchmark/benchmark.h>

#include "fssdp/all.hpp"
#include "zipf_loads.hpp"

/// Nodes of eight devices, whole experts on them, loads as a router gives them.
struct plan_scene {
  fssdp::topology topology;
  fssdp::block_layout layout;
  fssdp::expert_loads loads;

  /// The arguments are nodes and experts.
  explicit plan_scene(benchmark::State const& state)
      : topology{{.nodes = static_cast<int>(state.range(0)),
                  .ranks = 8 * static_cast<int>(state.range(0))}},
        layout{{.experts = static_cast<int>(state.range(1)), .ranks = topology.ranks()}},
        loads{zipf_loads(static_cast<std::size_t>(state.range(1)))} {}

  /// A quarter of the experts get replicas, two on every device.
  [[nodiscard]] fssdp::sparse_materialization solver() const {
    return {.overlap = layout.experts() / 4, .spare_slots = 2, .topology = topology};
  }
  [[nodiscard]] fssdp::placement sparse() const { return solver()(loads, layout); }
  [[nodiscard]] fssdp::placement dense() const { return fssdp::everywhere{}(loads, layout); }
};

/// 64 experts on 32 devices; 1,024 experts on 512.
inline void plan_scenes(benchmark::internal::Benchmark* of) {
  of->ArgNames({"nodes", "experts"})->Args({4, 64})->Args({64, 1024});
  of->Unit(benchmark::kMicrosecond);
}
