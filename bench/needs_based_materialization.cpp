// SPDX-License-Identifier: Apache-2.0
// How long it takes to find a needs-based placement, without the time to allocate memory.
#include "fssdp/solver/needs_based_materialization.hpp"

#include "cluster_scene.hpp"

namespace {

void solve_into(benchmark::State& state) {
  auto const on = cluster_scene{state};
  auto const solver = fssdp::needs_based_materialization{on.budget, on.topo};
  auto where = fssdp::placement{};
  auto memory = fssdp::needs_based_materialization::workspace{};
  for (auto _ : state) {
    solver.solve_into(on.loads, on.layout, where, memory);
    benchmark::DoNotOptimize(where);
  }
}

BENCHMARK(solve_into)->Apply(clusters);

}  // namespace
