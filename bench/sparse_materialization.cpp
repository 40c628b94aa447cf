// SPDX-License-Identifier: Apache-2.0
// How long it takes to find a placement, before each iteration.
#include "fssdp/solver/sparse_materialization.hpp"

#include "plan_scene.hpp"

namespace {

void solve(benchmark::State& state) {
  auto const on = plan_scene{state};
  auto const solver = on.solver();
  for (auto _ : state) benchmark::DoNotOptimize(solver(on.loads, on.layout));
}

BENCHMARK(solve)->Apply(plan_scenes);

}  // namespace
