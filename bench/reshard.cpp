// SPDX-License-Identifier: Apache-2.0
// Chunks move to other owners, and back. Bound: the same threads copy the same chunks from the
// shards of the same ranks into memory of their own.
#include "fssdp/collective/reshard.hpp"

#include <cstring>
#include <vector>

#include "beside_bound.hpp"
#include "fssdp/all.hpp"
#include "fssdp/memory/copy_bytes.hpp"

namespace {

using fssdp::rank_id;

void reshard(benchmark::State& state) {
  auto const ranks = static_cast<int>(state.range(0));
  auto const elements = (static_cast<std::size_t>(state.range(1)) << 20U) / sizeof(float);
  auto const block = fssdp::block_layout{{.experts = 32, .ranks = ranks}};
  auto const cyclic = fssdp::cyclic_layout{{.experts = 32, .ranks = ranks}};
  auto const there = fssdp::reshard_plan{block, cyclic};
  auto const back = fssdp::reshard_plan{cyclic, block};
  auto shards = std::vector<fssdp::expert_buffer<float>>{};
  auto others = std::vector<fssdp::expert_buffer<float>>{};
  auto scratch = std::vector<fssdp::scratch_memory>(static_cast<std::size_t>(ranks));
  for (auto const rank : fssdp::first_n<rank_id>(ranks)) {
    shards.push_back(fssdp::make_shard<float>(block, rank, elements));
    others.push_back(fssdp::make_shard<float>(cyclic, rank, elements));
  }
  // Copies all that one rank gets, from the slots of one layout into those of the other.
  auto const copy_all = [&](auto const& plan, rank_id me, auto& from, auto const& old_layout,
                            auto& to, auto const& new_layout, auto copy) {
    for (auto const& move : plan.moves()) {
      if (move.destination != me) continue;
      auto const old_slot = static_cast<std::size_t>(old_layout.slot(move.chunk));
      auto const new_slot = static_cast<std::size_t>(new_layout.slot(move.chunk));
      copy(std::as_writable_bytes(to[me.index()].tensors()[0][new_slot]),
           std::as_bytes(from[move.source.index()].tensors()[0][old_slot]));
    }
    benchmark::ClobberMemory();
  };
  auto const there_and_back = [&](rank_id me, auto copy) {
    copy_all(there, me, shards, block, others, cyclic, copy);
    copy_all(back, me, others, cyclic, shards, block, copy);
  };
  measure(
      state, {.ranks = ranks, .bytes = 2 * there.moves().size() * elements * sizeof(float)},
      [&](auto& comm) {
        auto const me = comm.rank().index();
        fssdp::reshard(comm, there, shards[me], {.scratch = &scratch[me]});
        fssdp::reshard(comm, back, shards[me], {.scratch = &scratch[me]});
      },
      [&](rank_id me) {
        there_and_back(
            me, [](auto to, auto from) { std::memcpy(to.data(), from.data(), from.size()); });
      },
      [&](rank_id me) { there_and_back(me, fssdp::detail::copy_past_caches); });
}

BENCHMARK(reshard)
    ->ArgNames({"ranks", "MiB"})
    ->ArgsProduct({{2, 4}, {1, 4}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
