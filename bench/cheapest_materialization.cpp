// SPDX-License-Identifier: Apache-2.0
// How long cheapest_materialization takes, with and without refining.
#include "fssdp/solver/cheapest_materialization.hpp"

#include "cluster_scene.hpp"

namespace {

void solve(benchmark::State& state) {
  auto const on = cluster_scene{state};
  auto const solver = fssdp::cheapest_materialization{.budget = on.budget,
                                                      .rates = on.rates(),
                                                      .topology = on.topo,
                                                      .trials = static_cast<int>(state.range(3))};
  for (auto _ : state) benchmark::DoNotOptimize(solver(on.loads, on.layout));
}

BENCHMARK(solve)
    ->ArgNames({"experts", "ranks", "in", "trials"})
    ->ArgsProduct({{64}, {32}, {4}, {0, 50, 200}})
    ->Args({512, 1024, 8, 0})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
