// SPDX-License-Identifier: Apache-2.0
// SparseAllGather between threads. Bound: the same threads copy the same bytes between the same
// buffers, with memcpy or with stores that bypass the caches, whichever is faster.
#include "fssdp/collective/sparse_all_gather.hpp"

#include <cstring>
#include <span>

#include "fssdp/memory/copy_bytes.hpp"
#include "scene.hpp"

namespace {

template <class T, auto Place>
void gather(benchmark::State& state) {
  auto const of = scene{state, Place};
  auto const& plan = of.plan;
  auto const elements = of.expert_bytes / sizeof(T);
  auto weights = buffers<T>{};
  auto replicas = buffers<T>{};
  for (auto const rank : of.ranks()) {
    weights.push_back(fssdp::make_shard<T>(of.layout, rank, elements));
    replicas.push_back(fssdp::make_replicas<T>(plan, rank, elements));
  }
  auto const copy_all = [&](fssdp::rank_id me, auto copy) {
    auto const to = replicas[me.index()].tensors().front();
    for (auto const& t : plan.receives(me, 0)) {
      auto const from = weights[t.source.index()].tensors().front()[plan.owner_slot(t.chunk)];
      auto const slot = fssdp::transfer_plan::slot_in(plan.remote(me), t.chunk.expert);
      copy(std::as_writable_bytes(to[slot]), std::as_bytes(from));
    }
    benchmark::ClobberMemory();
  };
  measure(
      state, of.measured(),
      [&](auto& comm) {
        auto const me = comm.rank().index();
        fssdp::sparse_all_gather(comm, plan, weights[me], replicas[me]);
      },
      [&](fssdp::rank_id me) {
        copy_all(me, [](auto to, auto from) { std::memcpy(to.data(), from.data(), from.size()); });
      },
      [&](fssdp::rank_id me) { copy_all(me, fssdp::detail::copy_past_caches); });
}

BENCHMARK(gather<float, pairs>)->Apply(hot_scenes);
BENCHMARK(gather<float, pairs>)->Apply(cold_scenes);
BENCHMARK(gather<float, everywhere>)->Apply(hot_scenes);
BENCHMARK(gather<float, everywhere>)->Apply(cold_scenes);
BENCHMARK(gather<float, hot>)->Apply(hot_scenes);
BENCHMARK(gather<float, hot>)->Apply(cold_scenes);

}  // namespace
