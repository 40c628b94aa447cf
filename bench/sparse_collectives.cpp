// SPDX-License-Identifier: Apache-2.0
// The two verbs between threads. Bound: the same threads do the same work with a plain memcpy, or a
// plain sum of operands that lie in their own memory.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "beside_bound.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/fssdp.hpp"

namespace {

using fssdp::bf16;

/// One case: a layout of eight experts, and who holds them besides their owners.
struct scene {
  fssdp::block_layout layout;
  fssdp::transfer_plan plan;
  std::size_t expert_bytes;

  scene(benchmark::State const& state, fssdp::placement (*place)(fssdp::block_layout const&))
      : layout{{.experts = 8, .ranks = static_cast<int>(state.range(0))}},
        plan{fssdp::make_plan(layout, place(layout))},
        expert_bytes{static_cast<std::size_t>(state.range(1)) << 20U} {}

  [[nodiscard]] fssdp::index_range<fssdp::rank_id> ranks() const {
    return fssdp::first_n<fssdp::rank_id>(plan.ranks());
  }
};

fssdp::placement pairs(fssdp::block_layout const& layout) {  // every expert has one replica
  auto where = fssdp::placement{layout};
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(layout.experts()))
    where.add(expert, fssdp::rank_id{(layout.owner(expert).value() + 1) % layout.ranks()});
  return where;
}
fssdp::placement everywhere(fssdp::block_layout const& layout) {  // dense
  return fssdp::everywhere{}(layout);
}
fssdp::placement hot(fssdp::block_layout const& layout) {  // two experts of one owner to all
  auto where = fssdp::placement{layout};
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(2))
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(layout.ranks())) where.add(expert, rank);
  return where;
}

template <class T>
using buffers = std::vector<fssdp::expert_buffer<T>>;  // [rank]

template <class T, auto Place>
void gather(benchmark::State& state) {
  auto const of = scene{state, Place};
  auto const& layout = of.layout;
  auto const& plan = of.plan;
  auto const elements = of.expert_bytes / sizeof(T);
  auto weights = buffers<T>{};
  auto replicas = buffers<T>{};
  for (auto const rank : of.ranks()) {
    weights.push_back(fssdp::make_shard<T>(layout, rank, elements));
    replicas.push_back(fssdp::make_replicas<T>(plan, rank, elements));
  }
  auto const copy = [&](fssdp::rank_id me) {
    auto const to = replicas[me.index()].tensors().front();
    for (auto const& t : plan.receives(me, 0)) {
      auto const from = weights[t.source.index()].tensors().front()[plan.owner_slot(t.chunk)];
      auto const slot = fssdp::transfer_plan::slot_in(plan.foreign(me), t.chunk.expert);
      std::memcpy(to[slot].data(), from.data(), from.size_bytes());
    }
    benchmark::ClobberMemory();
  };
  measure(
      state, plan.ranks(), plan.transfers().size() * of.expert_bytes,
      [&](auto& comm) {
        auto const me = comm.rank().index();
        fssdp::sparse_all_gather(comm, plan, weights[me], replicas[me]);
      },
      copy);
}

/// out = s[0] + s[1] + ... of a number of sources that the compiler knows.
template <std::size_t N, class T>
void sum(T const* const* sources, std::span<float> out) {
  auto s = std::array<T const*, N>{};
  std::copy_n(sources, N, s.begin());
  for (std::size_t i = 0; i < out.size(); ++i) {
    auto total = static_cast<float>(s[0][i]);
    for (std::size_t k = 1; k < N; ++k) total += static_cast<float>(s[k][i]);
    out[i] = total;
  }
}

template <class T, auto Place>
void reduce(benchmark::State& state) {
  auto const of = scene{state, Place};
  auto const& layout = of.layout;
  auto const& plan = of.plan;
  auto const elements = of.expert_bytes / sizeof(T);
  auto partials = buffers<T>{};
  auto gradients = buffers<float>{};
  auto operands = buffers<T>{};  // a rank's own copies of all that it sums: [sum of holders]
  auto scratch = std::vector<fssdp::scratch_memory>(static_cast<std::size_t>(plan.ranks()));
  for (auto const rank : of.ranks()) {
    partials.push_back(fssdp::make_partials<T>(plan, rank, elements));
    gradients.push_back(fssdp::make_shard<float>(layout, rank, elements));
    auto const copies = layout.owned(rank).size() + plan.sends(rank, 0).size();
    operands.emplace_back(copies, std::span{&elements, 1});
  }
  auto const add_up = [&](fssdp::rank_id me) {
    auto const from = operands[me.index()].tensors().front();
    auto next = std::size_t{0};
    for (auto const [expert, slice] : layout.owned(me)) {
      auto sources = std::array<T const*, 4>{};
      auto const count = plan.where().holders(expert).size();
      for (auto& source : std::span{sources}.first(count)) source = from[next++].data();
      auto const out = gradients[me.index()].tensors().front()[plan.owner_slot(expert)];
      if (count == 1) sum<1>(sources.data(), out);
      if (count == 2) sum<2>(sources.data(), out);
      if (count == 4) sum<4>(sources.data(), out);
    }
    benchmark::ClobberMemory();
  };
  measure(
      state, plan.ranks(), plan.transfers().size() * of.expert_bytes,
      [&](auto& comm) {
        auto const me = comm.rank().index();
        fssdp::sparse_reduce_scatter(comm, plan, partials[me], gradients[me],
                                     {.scratch = &scratch[me]});
      },
      add_up);
}

void shapes(benchmark::internal::Benchmark* of) {
  of->ArgNames({"ranks", "MiB"})->ArgsProduct({{2, 4}, {1, 4}});
  of->UseManualTime()->Unit(benchmark::kMicrosecond);
}

BENCHMARK(gather<float, pairs>)->Apply(shapes);
BENCHMARK(gather<float, everywhere>)->Apply(shapes);
BENCHMARK(gather<float, hot>)->Apply(shapes);
BENCHMARK(gather<bf16, pairs>)->Apply(shapes);
BENCHMARK(gather<bf16, everywhere>)->Apply(shapes);
BENCHMARK(gather<bf16, hot>)->Apply(shapes);
BENCHMARK(reduce<float, pairs>)->Apply(shapes);
BENCHMARK(reduce<float, everywhere>)->Apply(shapes);
BENCHMARK(reduce<float, hot>)->Apply(shapes);
BENCHMARK(reduce<bf16, pairs>)->Apply(shapes);
BENCHMARK(reduce<bf16, everywhere>)->Apply(shapes);
BENCHMARK(reduce<bf16, hot>)->Apply(shapes);

}  // namespace
