// SPDX-License-Identifier: Apache-2.0
// A trainer's shards become the replicas of a rollout engine, on ideal ports: how long planning
// takes.
// Counters compare the time of the transfer with its bound, with gathering everything on every rank
// of the engine, and with one broadcast after the other to all of them.
// Then shards change from blocks to a cyclic layout in the same memory, in one step or in several:
// how many chunks of scratch a rank needs at most, and the time compared with the bound.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "fssdp/collective/transfer_between.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/cyclic_layout.hpp"
#include "fssdp/memory/expert_tensor.hpp"
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

/// The arguments are nodes of eight ranks, experts on each rank, and whether it moves in steps.
void in_place(benchmark::State& state) {
  constexpr auto elements = std::size_t{10'000'000};
  auto const nodes = static_cast<int>(state.range(0));
  auto const topo = fssdp::topology{{.nodes = nodes, .ranks = 8 * nodes}};
  auto const experts = topo.ranks() * static_cast<int>(state.range(1));
  auto const from = distribution{fssdp::block_layout{{.experts = experts, .ranks = topo.ranks()}}};
  auto const to = distribution{fssdp::cyclic_layout{{.experts = experts, .ranks = topo.ranks()}}};
  auto const make = [&] {
    return fssdp::redistribution{
        from, to, std::vector{elements}, topo, {.in_place = state.range(2) != 0}};
  };
  for (auto _ : state) benchmark::DoNotOptimize(make());
  auto const plan = make();
  auto const slots = static_cast<std::size_t>(state.range(1));
  auto const memory = std::make_unique_for_overwrite<float[]>(slots * elements);  // never touched
  auto const shard = fssdp::expert_tensor<float>{memory.get(), slots, elements};
  auto most = std::size_t{0};
  for (auto const rank : fssdp::first_n<rank_id>(topo.ranks()))
    most = std::max(most, fssdp::scratch_required(plan, rank, shard, shard));
  state.counters["chunks_of_scratch"] =
      static_cast<double>(most) / static_cast<double>(elements * sizeof(float));
  state.counters["over_bound"] = plan.simulated_seconds() / plan.bound_seconds();
}
BENCHMARK(in_place)
    ->ArgNames({"nodes", "experts", "steps"})
    ->ArgsProduct({{1, 4}, {4, 16}, {0, 1}})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(2);

}  // namespace
