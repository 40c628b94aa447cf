// SPDX-License-Identifier: Apache-2.0
// How long it takes to cut the chunks of a plan into pieces and to decide when each goes where, and
// how much memory that takes: the finished schedule, and the peak while it is made.
#include "fssdp/plan/schedule.hpp"

#include "memory_in_use.hpp"
#include "plan_scene.hpp"

namespace {

constexpr auto chunk_bytes = std::size_t{48'000'000};
constexpr auto mebibyte = 1024.0 * 1024;

/// @param options(fssdp::schedule_options)
template <std::size_t Effort>
void scheduled(benchmark::State& state) {
  auto const on = plan_scene{state};
  auto const plan = fssdp::make_plan(on.layout, on.sparse(), on.topology);
  auto const options = fssdp::schedule_options{.effort = Effort};
  for (auto _ : state) benchmark::DoNotOptimize(fssdp::schedule(plan, chunk_bytes, options));

  auto const before = memory_in_use::peak = memory_in_use::now;
  auto const made = fssdp::schedule(plan, chunk_bytes, options);
  state.counters["MiB"] = static_cast<double>(memory_in_use::now - before) / mebibyte;
  state.counters["MiB_peak"] = static_cast<double>(memory_in_use::peak - before) / mebibyte;
  state.counters["pieces"] = made.pieces();
  auto const transfers = static_cast<double>(made.transfers().size());
  state.counters["transfers"] = transfers;
  state.counters["per_transfer"] = benchmark::Counter{
      transfers, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert};
}

/// Fast, one cut; as it is by default; 8,192 experts on 4,096 devices besides.
void scenes_and_a_large_one(benchmark::internal::Benchmark* of) {
  plan_scenes(of);
  of->Args({512, 8192});
}

BENCHMARK(scheduled<0>)->Apply(scenes_and_a_large_one);
BENCHMARK(scheduled<fssdp::schedule_options{}.effort>)->Apply(scenes_and_a_large_one);

}  // namespace
