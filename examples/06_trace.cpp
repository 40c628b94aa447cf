// SPDX-License-Identifier: Apache-2.0
// Overlap: a step in which the gather of the next layer runs during the forward pass of this
// one, and reductions run during backward passes. It prints the trace: 06_trace > trace.json, for
// ui.perfetto.dev, chrome://tracing or draw_trace.
#include <array>
#include <chrono>
#include <cstddef>
#include <iostream>
#include <thread>
#include <vector>

#include "fssdp/all.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "program/standard_output.hpp"

namespace {

constexpr auto layers = 6;
constexpr auto size = std::size_t{100'000};  // parameters of one expert

constexpr auto waiting = fssdp::trace_track{"wait"};  // a track of one's own: what is not hidden

/// Stands for the computation of a layer.
void compute() { std::this_thread::sleep_for(std::chrono::milliseconds{3}); }

void step(fssdp::thread_communicator& comm, fssdp::trace_recorder& trace) {
  auto const rank = comm.rank();
  auto const layout = fssdp::block_layout{{.experts = 8, .ranks = comm.size()}};
  auto const loads = fssdp::expert_loads{3, 90, 5, 2, 40, 1, 7, 2};
  auto const solve = fssdp::sparse_materialization{.overlap = 4, .spare_slots = 2};
  auto const plan = fssdp::make_plan(layout, solve(loads, layout));
  auto const weights = fssdp::make_shard<float>(layout, rank, size);
  auto const partials = fssdp::make_partials<float>(plan, rank, size);
  auto gradients = fssdp::make_shard<float>(layout, rank, size);
  auto replicas = std::array{fssdp::make_replicas<float>(plan, rank, size),   // of this layer,
                             fssdp::make_replicas<float>(plan, rank, size)};  // and of the next one

  auto second = comm.duplicate();  // gathers and reductions do not wait for each other
  auto traced_gathers = fssdp::tracing{comm, &trace, fssdp::gather_track};
  auto traced_reductions = fssdp::tracing{second, &trace, fssdp::reduce_track};
  auto streams = std::array<fssdp::host_stream, 2>{};
  auto gathers = fssdp::on_stream(traced_gathers, streams[0]);
  auto reductions = fssdp::on_stream(traced_reductions, streams[1]);

  auto const whole = trace.range(fssdp::compute_track, "step");
  fssdp::sparse_all_gather(gathers, plan, weights, replicas[0]);
  for (int layer = 0; layer < layers; ++layer) {
    {
      auto const wait = trace.range(waiting, "wait", {.layer = layer});
      gathers.synchronize();
    }
    if (layer + 1 < layers)
      fssdp::sparse_all_gather(gathers, plan, weights,
                               replicas[static_cast<std::size_t>((layer + 1) % 2)]);
    auto const range = trace.range(fssdp::compute_track, "forward", {.layer = layer});
    compute();
  }
  for (int layer = layers; layer-- > 0;) {
    auto range = trace.range(fssdp::compute_track, "backward", {.layer = layer});
    compute();
    range.end();
    fssdp::sparse_reduce_scatter(reductions, plan, partials, gradients);
  }
  auto const wait = trace.range(waiting, "wait");
  reductions.synchronize();
}

}  // namespace

int main() {
  constexpr auto ranks = 4;
  auto const slow = fssdp::topology{
      {.nodes = 2,
       .ranks = ranks,
       .ports = {.inside_bytes_per_second = 1e9, .between_bytes_per_second = 0.25e9}}};
  auto traces = std::vector<fssdp::trace_recorder>{};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(ranks))
    traces.emplace_back(fssdp::trace_options{.rank = rank});
  auto world = fssdp::thread_world{{.ranks = ranks, .ports = slow}};
  world.run([&](fssdp::thread_communicator& comm) { step(comm, traces[comm.rank().index()]); });
  fssdp::write_chrome_trace(std::cout, traces);
  std::cout.flush();
  return program::output_was_taken("06_trace") && std::cout.good() ? 0 : 1;
}
