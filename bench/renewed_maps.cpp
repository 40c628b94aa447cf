// SPDX-License-Identifier: Apache-2.0
// Maps of an inference engine while loads drift: made from scratch each time (EPLB), or from the
// one in place.
// Counters: the fullest rank over the mean, and the experts that are sent for each new map.
//
// With --loads=FILE, a CSV as fssdp_sim --trace reads it, the maps of each layer follow its loads
// in the file instead: one rank for every 4 experts, 5 slots on each rank.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fssdp/plan/slot_moves.hpp"
#include "fssdp/solver/expert_load_balancer.hpp"
#include "fssdp/solver/incremental_load_balancer.hpp"
#include "fssdp_sim/load_trace.hpp"
#include "fssdp_sim/read_loads.hpp"
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

/// How maps of an engine are made, and what has come of it.
class map_maker {
 public:
  map_maker(int ranks, int slots, bool from_scratch)
      : topology_{{.nodes = (ranks + 7) / 8, .ranks = ranks}},
        eplb_{.replicas = ranks * slots, .topology = topology_},
        incremental_{.topology = topology_},
        from_scratch_{from_scratch} {}

  [[nodiscard]] auto first(fssdp::expert_loads const& loads) const { return eplb_(loads); }
  /// Replaces a map; only that is timed.
  template <class Map>
  void renew(benchmark::State& state, Map& map, fssdp::expert_loads const& loads) {
    state.ResumeTiming();
    auto next = from_scratch_ ? eplb_(loads) : incremental_(map, loads);
    state.PauseTiming();
    auto const moves = fssdp::slot_moves{map, next, {.topology = topology_}};
    balance_ += balance_of(next, loads);
    sent_ += moves.sent();
    rounds_ += moves.rounds();
    ++maps_;
    map = std::move(next);
  }
  void report(benchmark::State& state) const {
    state.counters["balance"] = balance_ / maps_;
    state.counters["sent"] = sent_ / maps_;
    state.counters["rounds"] = rounds_ / maps_;
  }

 private:
  fssdp::topology topology_;
  fssdp::expert_load_balancer eplb_;
  fssdp::incremental_load_balancer incremental_;
  bool from_scratch_;
  double balance_ = 0;
  double sent_ = 0;
  double rounds_ = 0;
  int maps_ = 0;
};

/// The arguments are experts, ranks and slots of each; then whether maps are made from scratch.
void renewed_maps(benchmark::State& state) {
  auto loads_at = drifting_loads{static_cast<std::size_t>(state.range(0))};
  auto maker = map_maker{static_cast<int>(state.range(1)), static_cast<int>(state.range(2)),
                         state.range(3) != 0};
  auto map = maker.first(loads_at(0));
  auto time = 0;
  for (auto _ : state) {
    state.PauseTiming();
    maker.renew(state, map, loads_at(++time));
    state.ResumeTiming();
  }
  maker.report(state);
}
BENCHMARK(renewed_maps)
    ->ArgNames({"experts", "ranks", "slots", "from_scratch"})
    ->ArgsProduct({{64}, {16}, {5}, {0, 1}})
    ->ArgsProduct({{256}, {32}, {9}, {0, 1}})
    ->ArgsProduct({{256}, {64}, {5}, {0, 1}})
    ->Iterations(128)
    ->Unit(benchmark::kMicrosecond);

/// An iteration is a map of one layer. The first sample of a trace gives the first maps.
void maps_of_trace(benchmark::State& state, sim::load_trace const& trace, bool from_scratch) {
  auto const ranks = static_cast<int>(expert_count(trace) / 4);
  auto maker = map_maker{ranks, 5, from_scratch};
  auto const changes = trace.size() - 1;
  auto map = maker.first(trace.front().layers.front());
  auto n = std::size_t{0};
  for (auto _ : state) {
    state.PauseTiming();
    auto const layer = n / changes % layer_count(trace);
    if (n % changes == 0) map = maker.first(trace.front().layers[layer]);
    maker.renew(state, map, trace[1 + n % changes].layers[layer]);
    ++n;
    state.ResumeTiming();
  }
  maker.report(state);
}

/// @throws std::exception if there are no such loads
void measure_trace(std::string_view file) {
  auto in = std::ifstream{std::string{file}};
  auto const name = "--loads=" + std::string{file};
  if (!in) throw std::runtime_error{name + " cannot be read; expected a file"};
  auto const trace = std::make_shared<sim::load_trace const>(sim::read_loads(in, name));
  if (trace->size() < 2 || expert_count(*trace) < 8)
    throw std::runtime_error{name + " has " + std::to_string(trace->size()) + " iterations of " +
                             std::to_string(expert_count(*trace)) +
                             " experts; expected at least 2 and 8"};
  auto const maps = (trace->size() - 1) * layer_count(*trace);
  for (auto const from_scratch : {false, true})
    benchmark::RegisterBenchmark(
        from_scratch ? "maps_of_trace/from_scratch" : "maps_of_trace",
        [=](benchmark::State& state) { maps_of_trace(state, *trace, from_scratch); })
        ->Iterations(static_cast<benchmark::IterationCount>(maps))
        ->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int count, char** arguments) {
  constexpr auto flag = std::string_view{"--loads="};
  auto others = std::vector<char*>{};
  try {
    for (auto* const argument : std::span{arguments, static_cast<std::size_t>(count)}) {
      auto const text = std::string_view{argument};
      if (text.starts_with(flag)) {
        benchmark::ClearRegisteredBenchmarks();
        measure_trace(text.substr(flag.size()));
      } else {
        others.push_back(argument);
      }
    }
  } catch (std::exception const& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
  auto left = static_cast<int>(others.size());
  benchmark::Initialize(&left, others.data());
  if (benchmark::ReportUnrecognizedArguments(left, others.data())) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
