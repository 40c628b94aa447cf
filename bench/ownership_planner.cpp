// SPDX-License-Identifier: Apache-2.0
// How long it takes to find owners for items of any size: from nothing; with sets of items that
// should be near each other; and starting from earlier owners, after the loads have drifted.
// Counters: the fullest rank over the bound, and the share of all bytes that moves.
#include "fssdp/solver/ownership_planner.hpp"

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace {

/// Of ten items six are experts of four sizes, three are matrices, whose step costs most, and one
/// is small, as norms are.
struct item_scene {
  explicit item_scene(benchmark::State const& state)
      : topo{{.nodes = static_cast<int>(state.range(1) + 7) / 8,
              .ranks = static_cast<int>(state.range(1))}} {
    for (std::int64_t i = 0; i < state.range(0); ++i) items.push_back(item(i % 10));
    for (int first = 0; first + 8 <= static_cast<int>(items.size()); first += 8) {
      auto& set = near.emplace_back();
      for (int i = 0; i < 8; ++i) set.emplace_back(first + i);
    }
  }

  /// Loads change by up to a half, each for itself.
  void drift() {
    for (auto& item : items) item.load = item.load * between(50, 150) / 100;
  }

  fssdp::topology topo;
  std::vector<fssdp::owned_item> items;
  std::vector<std::vector<fssdp::item_id>> near;

 private:
  std::uint64_t between(std::uint64_t first, std::uint64_t last) {
    return first + random_() % (last - first + 1);
  }
  fssdp::owned_item item(std::int64_t kind) {
    constexpr auto mebi = std::uint64_t{1} << 20U;
    if (kind < 6) {
      auto const bytes = between(8, 11) * 2 * mebi;
      return {.bytes = bytes, .step_cost = 10 * bytes, .load = between(1000, 10'000)};
    }
    auto const bytes = kind < 9 ? between(1, 16) * 4 * mebi : between(1, 8) * 8192;
    return {.bytes = bytes, .step_cost = bytes * between(1, 200)};
  }

  std::mt19937_64 random_{1};
};

void count(benchmark::State& state, item_scene const& of, fssdp::ownership_plan const& plan) {
  auto all = std::uint64_t{0};
  for (auto const& item : of.items) all += item.bytes;
  state.counters["over bound"] = plan.fullness / plan.bound;
  state.counters["moved"] = static_cast<double>(plan.moved_bytes) / static_cast<double>(all);
}

void anew(benchmark::State& state) {
  auto const of = item_scene{state};
  auto plan = fssdp::ownership_plan{};
  for (auto _ : state) plan = fssdp::ownership_planner{}(of.items, of.topo);
  count(state, of, plan);
}

void near(benchmark::State& state) {
  auto const of = item_scene{state};
  auto plan = fssdp::ownership_plan{};
  for (auto _ : state) plan = fssdp::ownership_planner{}(of.items, of.topo, {.near = of.near});
  count(state, of, plan);
  state.counters["sets on a node"] =
      static_cast<double>(plan.near_sets) / static_cast<double>(of.near.size());
}

void drifted(benchmark::State& state) {
  auto of = item_scene{state};
  auto const before = fssdp::ownership_planner{}(of.items, of.topo).owners;
  of.drift();
  auto all = 0.0;  // the price: moving all of it is worth one rank's fair share
  for (auto const& item : of.items) all += static_cast<double>(item.bytes);
  auto const solve = fssdp::ownership_planner{.price_per_byte = 1 / all};
  auto plan = fssdp::ownership_plan{};
  for (auto _ : state) plan = solve(of.items, of.topo, {}, before);
  count(state, of, plan);
}

void sizes(benchmark::internal::Benchmark* of) {
  of->ArgNames({"items", "ranks"})
      ->Args({16, 4})
      ->Args({1000, 64})
      ->Args({10'000, 512})
      ->Args({100'000, 4096})
      ->Unit(benchmark::kMillisecond);
}
BENCHMARK(anew)->Apply(sizes);
BENCHMARK(near)->Apply(sizes);
BENCHMARK(drifted)->Apply(sizes);

}  // namespace
