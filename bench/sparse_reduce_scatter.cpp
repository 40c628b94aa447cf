// SPDX-License-Identifier: Apache-2.0
// SparseReduceScatter between threads. Bound: the same threads form the same sums of operands in
// their own memory, by a loop for each number of operands; with plain stores or with stores that
// bypass the caches, whichever is faster.
#include "fssdp/collective/sparse_reduce_scatter.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "fssdp/memory/stream_lines.hpp"
#include "scene.hpp"

namespace {

using fssdp::bf16;
using fssdp::fp8_e4m3;

/// to[i] = s0[i] + s1[i] + ... for the elements from `first` on, of N sources.
template <std::size_t N, class T>
void sum(std::array<T const*, 4> const& sources, std::size_t first, std::size_t elements,
         float* __restrict to) {
  auto s = std::array<T const*, N>{};
  std::copy_n(sources.begin(), N, s.begin());
  for (std::size_t i = 0; i < elements; ++i) {
    auto total = static_cast<float>(s[0][first + i]);
    for (std::size_t k = 1; k < N; ++k) total += static_cast<float>(s[k][first + i]);
    to[i] = total;
  }
}

struct plain {
  template <std::size_t N, class T>
  static void run(std::array<T const*, 4> const& sources, std::span<float> out) {
    sum<N>(sources, 0, out.size(), out.data());
  }
};
struct past_caches {
  template <std::size_t N, class T>
  static void run(std::array<T const*, 4> const& sources, std::span<float> out) {
    auto some = std::array<float, 64>{};  // whole experts: aligned, and a multiple of these
    for (std::size_t first = 0; first < out.size(); first += some.size()) {
      sum<N>(sources, first, some.size(), some.data());
      fssdp::detail::stream_lines(std::as_writable_bytes(out.subspan(first)).data(),
                                  std::as_bytes(std::span{some}).data(), sizeof(some));
    }
    fssdp::detail::finish_stream();
  }
};

template <class T, auto Place>
void reduce(benchmark::State& state) {
  auto const of = scene{state, Place};
  auto const& plan = of.plan;
  auto const elements = of.expert_bytes / sizeof(T);
  auto partials = buffers<T>{};
  auto gradients = buffers<float>{};
  auto operands = buffers<T>{};  // a rank's own copies of all that it sums: [sum of holders]
  auto scratch = std::vector<fssdp::scratch_memory>(static_cast<std::size_t>(plan.ranks()));
  for (auto const rank : of.ranks()) {
    partials.push_back(fssdp::make_partials<T>(plan, rank, elements));
    gradients.push_back(fssdp::make_shard<float>(of.layout, rank, elements));
    auto const copies = of.layout.owned(rank).size() + plan.sends(rank, 0).size();
    operands.emplace_back(copies, std::span{&elements, 1});
  }
  auto const add_up = [&](fssdp::rank_id me, auto adder) {
    auto const from = operands[me.index()].tensors().front();
    auto next = std::size_t{0};
    for (auto const [expert, slice] : of.layout.owned(me)) {
      auto sources = std::array<T const*, 4>{};
      auto const count = plan.where().holders(expert).size();
      for (auto& source : std::span{sources}.first(count)) source = from[next++].data();
      auto const out = gradients[me.index()].tensors().front()[plan.owner_slot(expert)];
      if (count == 1) adder.template run<1>(sources, out);
      if (count == 2) adder.template run<2>(sources, out);
      if (count == 4) adder.template run<4>(sources, out);
    }
    benchmark::ClobberMemory();
  };
  measure(
      state, of.measured(),
      [&](auto& comm) {
        auto const me = comm.rank().index();
        fssdp::sparse_reduce_scatter(comm, plan, partials[me], gradients[me],
                                     {.scratch = &scratch[me]});
      },
      [&](fssdp::rank_id me) { add_up(me, plain{}); },
      [&](fssdp::rank_id me) { add_up(me, past_caches{}); });
}

BENCHMARK(reduce<float, pairs>)->Apply(hot_scenes);
BENCHMARK(reduce<float, pairs>)->Apply(cold_scenes);
BENCHMARK(reduce<float, everywhere>)->Apply(hot_scenes);
BENCHMARK(reduce<float, everywhere>)->Apply(cold_scenes);
BENCHMARK(reduce<float, hot>)->Apply(hot_scenes);
BENCHMARK(reduce<float, hot>)->Apply(cold_scenes);
BENCHMARK(reduce<bf16, pairs>)->Apply(hot_scenes);
BENCHMARK(reduce<bf16, pairs>)->Apply(cold_scenes);
BENCHMARK(reduce<bf16, everywhere>)->Apply(hot_scenes);
BENCHMARK(reduce<bf16, everywhere>)->Apply(cold_scenes);
BENCHMARK(reduce<bf16, hot>)->Apply(hot_scenes);
BENCHMARK(reduce<bf16, hot>)->Apply(cold_scenes);
BENCHMARK(reduce<fp8_e4m3, pairs>)->Apply(hot_scenes);
BENCHMARK(reduce<fp8_e4m3, pairs>)->Apply(cold_scenes);
BENCHMARK(reduce<fp8_e4m3, everywhere>)->Apply(hot_scenes);
BENCHMARK(reduce<fp8_e4m3, everywhere>)->Apply(cold_scenes);
BENCHMARK(reduce<fp8_e4m3, hot>)->Apply(hot_scenes);
BENCHMARK(reduce<fp8_e4m3, hot>)->Apply(cold_scenes);

}  // namespace
