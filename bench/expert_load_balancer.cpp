// SPDX-License-Identifier: Apache-2.0
// How long EPLB takes, with two more slots than experts on each rank.
#include "fssdp/solver/expert_load_balancer.hpp"

#include "cluster_scene.hpp"

namespace {

void solve(benchmark::State& state) {
  auto const on = cluster_scene{state};
  auto const ranks = on.topo.ranks();
  auto const least = (on.layout.experts() + ranks - 1) / ranks;
  auto const solver =
      fssdp::expert_load_balancer{.replicas = ranks * (least + 2), .topology = on.topo};
  for (auto _ : state) benchmark::DoNotOptimize(solver(on.loads));
}

BENCHMARK(solve)->Apply(clusters);

}  // namespace
