// SPDX-License-Identifier: Apache-2.0
// Maps of an inference engine while loads drift: made from scratch each time (EPLB), or from the
// one in place.
// Counters: the fullest rank over the mean, and the experts that are sent for each new map.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "fssdp/plan/slot_moves.hpp"
#include "fssdp/solver/expert_load_balancer.hpp"
#include "fssdp/solver/incremental_load_balancer.hpp"
#include "zipf_loads.hpp"

namespace {

/// Every load goes up or down by up to a third from one map to the next, and slowly becomes that of
/// another layer.
class drifting_loads {
 public:
  explicit drifting_loads(std::size_t experts)
      : from_{zipf_loads(experts, 0)}, to_{zipf_loads(experts, 3)} {}
  [[nodiscard]] fssdp::expert_loads operator()(int time) {
    constexpr auto period = 64;
    auto const part = static_cast<std::uint64_t>(time % period);
    auto loads = from_;
    for (std::size_t e = 0; e < loads.size(); ++e) {
      auto const mixed = ((period - part) * from_[e] + part * to_[e]) / period;
      loads[e] = mixed * (67 + draw_() % 67) / 100;
    }
    return loads;
  }

 private:
  fssdp::expert_loads from_;
  fssdp::expert_loads to_;
  std::mt19937_64 draw_{1};
};

/// The arguments are experts, ranks and slots of each; then whether maps are made from scratch.
void renewed_maps(benchmark::State& state) {
  auto const experts = static_cast<std::size_t>(state.range(0));
  auto const ranks = static_cast<int>(state.range(1));
  auto const topo = fssdp::topology{{.nodes = (ranks + 7) / 8, .ranks = ranks}};
  auto const eplb = fssdp::expert_load_balancer{
      .replicas = ranks * static_cast<int>(state.range(2)), .topology = topo};
  auto const incremental = fssdp::incremental_load_balancer{.topology = topo};
  auto const from_scratch = state.range(3) != 0;
  auto loads_at = drifting_loads{experts};
  auto map = eplb(loads_at(0));
  auto balance = 0.0;
  auto sent = 0.0;
  auto rounds = 0.0;
  auto time = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto const loads = loads_at(++time);
    state.ResumeTiming();
    auto next = from_scratch ? eplb(loads) : incremental(map, loads);
    state.PauseTiming();
    auto const moves = fssdp::slot_moves{map, next, {.topology = topo}};
    balance += balance_of(next, loads);
    sent += moves.sent();
    rounds += moves.rounds();
    map = next;
    state.ResumeTiming();
  }
  state.counters["balance"] = balance / time;
  state.counters["sent"] = sent / time;
  state.counters["rounds"] = rounds / time;
}
BENCHMARK(renewed_maps)
    ->ArgNames({"experts", "ranks", "slots", "from_scratch"})
    ->ArgsProduct({{64}, {16}, {5}, {0, 1}})
    ->ArgsProduct({{256}, {32}, {9}, {0, 1}})
    ->ArgsProduct({{256}, {64}, {5}, {0, 1}})
    ->Iterations(128)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
