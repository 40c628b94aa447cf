// SPDX-License-Identifier: Apache-2.0
// How long it takes to find owners for the experts of all layers.
#include "fssdp/solver/heterogeneous_sharding.hpp"

#include <vector>

#include "plan_scene.hpp"

namespace {

void solve(benchmark::State& state) {
  auto const on = plan_scene{state};
  auto loads = std::vector<fssdp::expert_loads>{};
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(state.range(2)); ++layer)
    loads.push_back(zipf_loads(on.loads.size(), layer));
  auto const solver = fssdp::heterogeneous_sharding{.overlap = on.layout.experts() / 4};
  for (auto _ : state) benchmark::DoNotOptimize(solver(loads, on.topology));
}

BENCHMARK(solve)
    ->ArgNames({"nodes", "experts", "layers"})
    ->Args({4, 64, 24})
    ->Args({64, 1024, 48})
    ->Unit(benchmark::kMillisecond);

}  // namespace
