// SPDX-License-Identifier: Apache-2.0
// What planning costs a rank for a layer and an iteration, while loads drift: it checks whether
// they have changed; if so it renews the placement, and makes a plan if the placement is another
// one. With shared plans it does its share of that, and reads the plans that others send as bytes.
// Averaged over the iterations.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fssdp/all.hpp"
#include "fssdp_sim/cluster.hpp"
#include "fssdp_sim/layer_figures.hpp"
#include "fssdp_sim/model.hpp"
#include "fssdp_sim/policies/ours.hpp"
#include "fssdp_sim/prediction.hpp"
#include "fssdp_sim/setting.hpp"
#include "fssdp_sim/split_loads.hpp"
#include "fssdp_sim/synthetic_loads.hpp"

namespace {

/// One layer of a model on a cluster, through many iterations, there and back, so that loads never
/// jump.
class drifting_layer {
 public:
  drifting_layer(sim::cluster_kind const& kind, sim::model_shape const& model, int devices,
                 int experts) {
    constexpr auto tokens_of_device = std::uint64_t{8192};
    constexpr auto samples = 520;
    trace_ = sim::synthetic_loads(
        {.layers = 1,
         .experts = experts,
         .tokens = tokens_of_device * static_cast<std::uint64_t>(devices * model.top_k),
         .iterations = samples});
    where_ =
        sim::make_setting(kind, model, devices, model.layers, experts, sim::mean_tokens(trace_));
    for (std::size_t n = 1; n < trace_.size(); ++n)
      loads_.push_back(sim::prediction{}(trace_, n, 0));
    owners_ = fssdp::heterogeneous_sharding{.overlap = sim::hidden_experts(where_)}(
        std::vector<fssdp::expert_loads>{loads_.front()}, where_.topology)[0];
    auto const counts = sim::split_loads(loads_.front(), devices);
    solve_ = sim::solver_of_ours({.topology = &where_.topology,
                                  .rates = where_.rates,
                                  .owners = &owners_,
                                  .predicted = &loads_.front(),
                                  .counts = &counts,
                                  .slots = 4});
  }

  [[nodiscard]] fssdp::expert_loads const& next() {
    if (at_ + step_ < 0 || at_ + step_ >= static_cast<int>(loads_.size())) step_ = -step_;
    at_ += step_;
    return loads_[static_cast<std::size_t>(at_)];
  }
  [[nodiscard]] fssdp::placement solve(fssdp::expert_loads const& loads) const {
    return solve_(loads, owners_);
  }
  [[nodiscard]] fssdp::placement renew(fssdp::expert_loads const& loads,
                                       fssdp::placement const& before) const {
    return solve_(loads, owners_, before);
  }
  /// By the model of fssdp_sim, if these loads come.
  [[nodiscard]] double seconds(fssdp::expert_loads const& loads,
                               fssdp::placement const& where) const {
    auto const counts = sim::split_loads(loads, owners_.ranks());
    return sim::figures_of({.topology = &where_.topology,
                            .rates = where_.rates,
                            .owners = &owners_,
                            .predicted = &loads,
                            .counts = &counts},
                           {owners_, where, sim::routing_rule::balanced}, {})
        .cost.seconds();
  }
  /// @param effort as of schedule_options; 0: a coarse one
  [[nodiscard]] fssdp::transfer_plan plan(fssdp::placement const& where,
                                          std::size_t effort = 0) const {
    return fssdp::make_requested_plan({.layout = owners_,
                                       .where = where,
                                       .topology = where_.topology,
                                       .chunk_bytes = where_.rates.expert_bytes,
                                       .schedule = fssdp::schedule_options{.effort = effort}});
  }
  [[nodiscard]] fssdp::transfer_plan read(std::span<std::byte const> bytes) const {
    return fssdp::plan_from_bytes(bytes, owners_, where_.topology);
  }

 private:
  sim::setting where_;
  sim::load_trace trace_;
  std::vector<fssdp::expert_loads> loads_;
  fssdp::table_layout owners_;
  fssdp::cheapest_materialization solve_;
  int at_ = 0;
  int step_ = 1;
};

[[nodiscard]] drifting_layer layer_of(benchmark::State const& state) {
  auto const devices = static_cast<int>(state.range(1));
  auto const experts = static_cast<int>(state.range(0));
  return devices <= 32 ? drifting_layer{*sim::cluster_named("a"), *sim::model_named("gpt-moe-s"),
                                        devices, experts}
                       : drifting_layer{*sim::cluster_named("h100"),
                                        *sim::model_named("deepseek-v3"), devices, experts};
}

/// Everything from scratch in every iteration.
void plan_from_scratch(benchmark::State& state) {
  auto layer = layer_of(state);
  for (auto _ : state) {
    auto const where = layer.solve(layer.next());
    benchmark::DoNotOptimize(layer.plan(where));
  }
}

/// With a load_tolerance of 0.015. Counters: shares of iterations in which the solver was asked, and
/// a plan was made; cost of the placements over that of new ones, now and then.
void plan_renewed(benchmark::State& state) {
  auto layer = layer_of(state);
  auto known = layer.next();
  auto where = layer.solve(known);
  auto asked = 0.0;
  auto planned = 0.0;
  auto renewed_seconds = 0.0;
  auto new_seconds = 0.0;
  auto iteration = 0;
  for (auto _ : state) {
    auto const& loads = layer.next();
    if (++iteration % 100 == 0) {
      state.PauseTiming();
      renewed_seconds += layer.seconds(loads, where);
      new_seconds += layer.seconds(loads, layer.solve(loads));
      state.ResumeTiming();
    }
    if (fssdp::load_change(known, loads) <= 0.015) continue;
    ++asked;
    known = loads;
    auto next = layer.renew(loads, where);
    if (next == where) continue;
    ++planned;
    where = std::move(next);
    benchmark::DoNotOptimize(layer.plan(where));
  }
  auto const count = static_cast<double>(state.iterations());
  state.counters["asked"] = asked / count;
  state.counters["planned"] = planned / count;
  state.counters["cost"] = renewed_seconds / new_seconds;
}

/// The same where ranks share plans: what one of them plans itself (one in as many as there are
/// ranks), and what it makes of the bytes of the others. Counters: one plan that is made and written,
/// one that is read, in microseconds; its bytes.
void plan_shared(benchmark::State& state) {
  using clock = std::chrono::steady_clock;
  auto const seconds = [](clock::duration d) { return std::chrono::duration<double>(d).count(); };
  auto layer = layer_of(state);
  auto const ranks = static_cast<double>(state.range(1));
  auto const effort = static_cast<std::size_t>(state.range(2));
  auto known = layer.next();
  auto where = layer.solve(known);
  auto made = 0;
  auto making = 0.0;
  auto reading = 0.0;
  auto bytes = 0.0;
  for (auto _ : state) {
    auto const& loads = layer.next();
    auto const begin = clock::now();
    auto const is_known = fssdp::load_change(known, loads) <= 0.015;
    auto time = seconds(clock::now() - begin);
    if (!is_known) {
      known = loads;
      auto const ask = clock::now();
      auto next = layer.renew(loads, where);
      auto sent = std::vector<std::byte>{};
      auto const is_new = next != where;
      where = std::move(next);
      if (is_new) sent = fssdp::plan_to_bytes(layer.plan(where, effort));
      auto const got = clock::now();
      if (is_new) benchmark::DoNotOptimize(layer.read(sent));
      auto const read = clock::now();
      time += seconds(got - ask) / ranks + seconds(read - got);
      made += is_new ? 1 : 0;
      making += is_new ? seconds(got - ask) : 0;
      reading += seconds(read - got);
      bytes += static_cast<double>(sent.size());
    }
    state.SetIterationTime(time);
  }
  state.counters["made_us"] = 1e6 * making / made;
  state.counters["read_us"] = 1e6 * reading / made;
  state.counters["bytes"] = bytes / made;
}

constexpr auto default_effort = static_cast<std::int64_t>(fssdp::schedule_options{}.effort);

void sizes(benchmark::internal::Benchmark* of) {
  of->ArgNames({"experts", "ranks"})->Unit(benchmark::kMicrosecond);
  of->Args({64, 32})->Args({256, 512})->Args({512, 4096});
}
BENCHMARK(plan_from_scratch)->Apply(sizes);
BENCHMARK(plan_renewed)->Apply(sizes)->Iterations(500);
BENCHMARK(plan_shared)
    ->ArgNames({"experts", "ranks", "effort"})
    ->Unit(benchmark::kMicrosecond)
    ->ArgsProduct({{64}, {32}, {0, default_effort}})
    ->ArgsProduct({{256}, {512}, {0, default_effort}})
    ->ArgsProduct({{512}, {4096}, {0, default_effort}})
    ->Iterations(500)
    ->UseManualTime();

}  // namespace
