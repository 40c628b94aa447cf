// SPDX-License-Identifier: Apache-2.0
// How long it takes to verify a plan, which replays it.
#include "fssdp/plan/verify.hpp"

#include "plan_scene.hpp"

namespace {

template <auto Place>
void verify(benchmark::State& state) {
  auto const on = plan_scene{state};
  auto const plan = fssdp::make_plan(on.layout, (on.*Place)(), on.topology);
  for (auto _ : state) fssdp::verify(plan);
  state.counters["transfers"] = static_cast<double>(plan.transfers().size());
}

BENCHMARK(verify<&plan_scene::sparse>)->Apply(plan_scenes);
BENCHMARK(verify<&plan_scene::dense>)->Apply(plan_scenes);

}  // namespace
