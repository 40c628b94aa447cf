// SPDX-License-Identifier: Apache-2.0
// How much of the time of gathers is hidden behind matrix products, and a timeline of it: --help
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "fssdp/collective/all_gather.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "fssdp/trace/chrome_trace.hpp"
#include "gpu/overlap/rank_layers.hpp"
#include "gpu_double/gpu_double.hpp"
#include "program/run_program.hpp"
#include "program/write_file.hpp"

namespace {

using fssdp::rank_id;
using overlap::order;

/// What all ranks have found out together.
struct findings {
  std::size_t products = 0;       // of a rank in a layer
  std::array<double, 4> us = {};  // [order], the median
  std::size_t wrong = 0;
  std::vector<fssdp::trace_recorder> traces = {};  // [rank]
};

[[nodiscard]] double median(std::vector<double> of) {
  auto const middle = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
  std::ranges::nth_element(of, middle);
  return *middle;
}

/// The layers of a rank, and the clock of all: an event of the device that they share.
struct timed_layers {
  fssdp::peer_communicator& comm;
  overlap::rank_layers& layers;
  overlap::cuda_event const& origin;

  /// Everybody's values, when everybody has come here: [ranks, n].
  [[nodiscard]] std::vector<double> meet(std::vector<double> const& mine) const {
    auto all = std::vector<double>(mine.size() * static_cast<std::size_t>(comm.size()));
    fssdp::all_gather(comm, mine, all);
    return all;
  }
  /// Runs it, and tells what has run when.
  [[nodiscard]] std::vector<fssdp::trace_event> run(order how) const {
    if (comm.rank() == rank_id{0}) overlap::record(origin, comm.stream());
    comm.synchronize();
    (void)meet({0});
    layers.enqueue(how);
    layers.synchronize();
    return layers.events(how, origin);
  }
  /// Microseconds from the first begin to the last end on all ranks.
  [[nodiscard]] double time(order how) const {
    auto begin = fssdp::trace_clock::time_point::max();
    auto end = fssdp::trace_clock::time_point::min();
    for (auto const& event : run(how)) {
      begin = std::min(begin, event.begin);
      end = std::max(end, event.end);
    }
    auto const us = [](auto point) {
      return std::chrono::duration<double, std::micro>(point.time_since_epoch()).count();
    };
    auto const spans = meet({-us(begin), us(end)});
    auto latest = std::array{spans[0], spans[1]};
    for (std::size_t i = 0; i < spans.size(); ++i)
      latest[i % 2] = std::max(latest[i % 2], spans[i]);
    return latest[0] + latest[1];
  }
  [[nodiscard]] std::array<double, 4> medians(int repeats) const {
    auto times = std::array<std::vector<double>, 4>{};
    for (int i = 0; i < repeats; ++i)
      for (std::size_t how = 0; how < times.size(); ++how)
        times[how].push_back(time(static_cast<order>(how)));
    return {median(times[0]), median(times[1]), median(times[2]), median(times[3])};
  }
};

[[nodiscard]] findings measure(overlap::options const& of) {
  auto const layout = fssdp::block_layout{{.experts = of.ranks, .ranks = of.ranks}};
  auto const plan = make_plan(layout, fssdp::everywhere{}(layout));
  auto const origin = overlap::make_timed_event();
  auto found = findings{};
  auto wrong = std::vector<std::size_t>(static_cast<std::size_t>(of.ranks));
  for (auto const rank : fssdp::first_n<rank_id>(of.ranks))
    found.traces.emplace_back(fssdp::trace_options{.rank = rank, .capacity = 1024});
  fssdp::peer_world{{.ranks = of.ranks,
                     .devices = 1,
                     .kernels = gpu_double::kernels(),
                     .copies = of.copies,
                     .copy_blocks = of.blocks}}
      .run([&](fssdp::peer_communicator& comm) {
        auto layers = overlap::rank_layers{comm, plan, layout, of};
        auto const timed = timed_layers{comm, layers, origin};
        (void)timed.medians(2);  // warms up
        auto const once = timed.medians(3);
        layers.set_products(static_cast<std::size_t>(
            std::lround(static_cast<double>(layers.products()) * once[0] / once[1])));
        auto const us = timed.medians(of.repeats);
        layers.clear();
        for (auto const& event : timed.run(order::overlapped))
          found.traces[comm.rank().index()].record(event);
        wrong[comm.rank().index()] = layers.wrong();
        if (comm.rank() != rank_id{0}) return;
        found.products = layers.products();
        found.us = us;
      });
  for (auto const count : wrong) found.wrong += count;
  return found;
}

void print(overlap::options const& of, findings const& found) {
  auto device = cudaDeviceProp{};
  fssdp::detail::cuda_require(cudaGetDeviceProperties(&device, 0), {}, "cudaGetDeviceProperties");
  auto const [gathers, products, in_turn, both] = found.us;
  auto const first = gathers / of.layers;  // has nothing beside it, as the last product
  std::printf(
      "%d ranks on one %s, %d layers, an expert for each rank: %d x %d in bf16, copied by %s\n"
      "in each layer %zu products of %d rows on each rank; medians of %d runs\n"
      "gathers alone       %10.1f us\n"
      "products alone      %10.1f us\n"
      "one after the other %10.1f us\n"
      "overlapped          %10.1f us\n"
      "of the gathers that have products beside them, %.2f is exposed\n",
      of.ranks, device.name, of.layers, of.width, of.width, overlap::name_of(of.copies),
      found.products, of.rows, of.repeats, gathers, products, in_turn, both,
      (both - products - first) / (gathers - first));
}

[[nodiscard]] int run(overlap::options const& of) {
  gpu_double::reset({.only_device_memory = true});
  auto const found = measure(of);
  print(of, found);
  if (!of.trace.empty()) {
    auto text = std::ostringstream{};
    write_chrome_trace(text, found.traces);
    program::write_file(of.trace, text.str());
    std::printf("timeline of one more run: %s\n", of.trace.c_str());
  }
  auto const violations = gpu_double::violations();
  for (auto const& violation : violations) std::printf("violation: %s\n", violation.c_str());
  std::printf("%zu elements of the products of that run are wrong\n", found.wrong);
  return found.wrong == 0 && violations.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  // Two streams for each rank: where they share a queue of the device, they wait for each other.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  return program::run_program({.name = "overlap"}, argc, argv, overlap::read_command_line, run);
}
