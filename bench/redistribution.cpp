// SPDX-License-Identifier: Apache-2.0
// A trainer's shards become the replicas of a rollout engine, on ideal ports: how long planning takes;
// by the counters, how long the transfer takes beside its bound, beside gathering everything on every
// rank of the engine, and beside one broadcast after the other to all of them.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <vector>

#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/cyclic_layout.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/redistribution.hpp"
#include "fssdp/topology/topology.hpp"

namespace {

using fssdp::distribution;
using fssdp::expert_id;
using fssdp::rank_id;

/// Nodes of eight ranks: half of each trains, or half of the nodes do.
struct trainer_and_engine {
  int ranks;
  int half;
  fssdp::topology topo;
  std::vector<rank_id> trainers;
  std::vector<rank_id> engine;

  trainer_and_engine(int nodes, bool share_nodes)
      : ranks{8 * nodes}, half{4 * nodes}, topo{{.nodes = nodes, .ranks = ranks}} {
    for (int rank = 0; rank < ranks; ++rank)
      ((share_nodes ? rank % 8 < 4 : rank < half) ? trainers : engine).push_back(rank_id{rank});
  }
  [[nodiscard]] int experts() const { return 4 * half; }
  /// fp32 shards, experts in two slices.
  [[nodiscard]] distribution shards(int of_experts) const {
    auto const layout = fssdp::block_layout{{.experts = of_experts, .ranks = half, .slices = 2}};
    return distribution{layout}.on(trainers, ranks);
  }
  /// Four experts on every rank of the engine, and a second replica of every fourth.
  [[nodiscard]] distribution replicas() const {
    auto where = fssdp::placement{fssdp::cyclic_layout{{.experts = experts(), .ranks = half}}};
    for (int e = 0; e < experts(); e += 4)
      where.add(expert_id{e}, rank_id{(e / 4 + half / 2 + 1) % half});
    return distribution{where}.on(engine, ranks);
  }
  [[nodiscard]] distribution everything(int of_experts) const {
    auto where = fssdp::placement{fssdp::cyclic_layout{{.experts = of_experts, .ranks = half}}};
    for (int e = 0; e < of_experts; ++e)
      for (int rank = 0; rank < half; ++rank) where.add(expert_id{e}, rank_id{rank});
    return distribution{where}.on(engine, ranks);
  }
};

/// The arguments are nodes, whether trainer and engine share them, and million elements of an expert.
void redistribution(benchmark::State& state) {
  auto const of = trainer_and_engine{static_cast<int>(state.range(0)), state.range(1) != 0};
  auto const elements = std::vector{static_cast<std::size_t>(state.range(2)) * 1'000'000};
  auto const seconds = [&](distribution const& from, distribution const& to) {
    return fssdp::redistribution{from, to, elements, of.topo, {.element_bytes = 2}}
        .simulated_seconds();
  };
  auto const from = of.shards(of.experts());
  auto const to = of.replicas();
  for (auto _ : state)
    benchmark::DoNotOptimize(
        fssdp::redistribution{from, to, elements, of.topo, {.element_bytes = 2}});
  auto const plan = fssdp::redistribution{from, to, elements, of.topo, {.element_bytes = 2}};
  auto const taken = plan.simulated_seconds();
  state.counters["simulated_us"] = 1e6 * taken;
  state.counters["over_bound"] = taken / plan.bound_seconds();
  if (of.ranks > 64) return;  // gathering everything takes long to plan, too
  state.counters["gather_all"] = seconds(from, of.everything(of.experts())) / taken;
  state.counters["broadcasts"] = of.experts() * seconds(of.shards(1), of.everything(1)) / taken;
}
BENCHMARK(redistribution)
    ->ArgNames({"nodes", "shared", "melements"})
    ->ArgsProduct({{2, 4, 8, 16, 32, 64}, {0, 1}, {40}})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(2);

}  // namespace
