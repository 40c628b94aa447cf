// SPDX-License-Identifier: Apache-2.0
// How long a plan takes to be replayed.
#include "fssdp/plan/verify.hpp"

#include "machine.hpp"

namespace {

template <auto Place>
void verify(benchmark::State& state) {
  auto const on = machine{state};
  auto const plan = fssdp::make_plan(on.layout, (on.*Place)(), on.cluster);
  for (auto _ : state) fssdp::verify(plan);
  state.counters["transfers"] = static_cast<double>(plan.transfers().size());
}

BENCHMARK(verify<&machine::sparse>)->Apply(machines);
BENCHMARK(verify<&machine::dense>)->Apply(machines);

}  // namespace
