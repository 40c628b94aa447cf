// SPDX-License-Identifier: Apache-2.0
// How long it takes to divide counted tokens among the replicas of their experts.
#include "fssdp/routing/balanced_shares.hpp"

#include "cluster_scene.hpp"

namespace {

void assign(benchmark::State& state) {
  auto const on = cluster_scene{state};
  auto const where = fssdp::needs_based_materialization{on.budget, on.topo}(on.loads, on.layout);
  auto shares = fssdp::balanced_shares{};
  for (auto _ : state) {
    shares.assign(where, on.topo, on.demand);
    benchmark::DoNotOptimize(shares);
  }
  state.counters["max/mean"] = fssdp::max_over_mean(shares.loads());
}

BENCHMARK(assign)->Apply(clusters);

}  // namespace
