// SPDX-License-Identifier: Apache-2.0
// How long it takes to make a plan, per transfer and in total. This is done before each iteration
// that has a new placement.
#include "fssdp/plan/make_plan.hpp"

#include "plan_scene.hpp"

namespace {

void count_transfers(benchmark::State& state, fssdp::transfer_plan const& plan) {
  auto const transfers = static_cast<double>(plan.transfers().size());
  state.counters["transfers"] = transfers;
  state.counters["per_transfer"] = benchmark::Counter{
      transfers, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert};
}

template <auto Place>
void direct(benchmark::State& state) {
  auto const on = plan_scene{state};
  auto const where = (on.*Place)();
  for (auto _ : state) benchmark::DoNotOptimize(fssdp::make_plan(on.layout, where));
  count_transfers(state, fssdp::make_plan(on.layout, where));
}

template <auto Place>
void node_aware(benchmark::State& state) {
  auto const on = plan_scene{state};
  auto const where = (on.*Place)();
  for (auto _ : state) benchmark::DoNotOptimize(fssdp::make_plan(on.layout, where, on.topology));
  count_transfers(state, fssdp::make_plan(on.layout, where, on.topology));
}

BENCHMARK(direct<&plan_scene::sparse>)->Apply(plan_scenes);
BENCHMARK(direct<&plan_scene::dense>)->Apply(plan_scenes);
BENCHMARK(node_aware<&plan_scene::sparse>)->Apply(plan_scenes);
BENCHMARK(node_aware<&plan_scene::dense>)->Apply(plan_scenes);

}  // namespace
