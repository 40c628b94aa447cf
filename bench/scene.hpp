// SPDX-License-Identifier: Apache-2.0
/// The cases of the two collectives: eight experts, who holds them, how large they are.
#pragma once

#include <benchmark/benchmark.h>

#include <cstddef>
#include <vector>

#include "beside_bound.hpp"
#include "fssdp/all.hpp"

/// One case: a layout of eight experts, and who holds them besides their owners.
struct scene {
  fssdp::block_layout layout;
  fssdp::transfer_plan plan;
  std::size_t expert_bytes;
  caches begin_with;

  scene(benchmark::State const& state, fssdp::placement (*place)(fssdp::block_layout const&))
      : layout{{.experts = 8, .ranks = static_cast<int>(state.range(0))}},
        plan{fssdp::make_plan(layout, place(layout))},
        expert_bytes{static_cast<std::size_t>(state.range(1)) << 20U},
        begin_with{state.range(2) == 0 ? caches::hot : caches::cold} {}

  [[nodiscard]] fssdp::index_range<fssdp::rank_id> ranks() const {
    return fssdp::first_n<fssdp::rank_id>(plan.ranks());
  }
  /// What the benchmark is told of it.
  [[nodiscard]] setting measured() const {
    return {plan.ranks(), plan.transfers().size() * expert_bytes, begin_with};
  }
};

inline fssdp::placement pairs(fssdp::block_layout const& layout) {  // every expert has one replica
  auto where = fssdp::placement{layout};
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(layout.experts()))
    where.add(expert, fssdp::rank_id{(layout.owner(expert).value() + 1) % layout.ranks()});
  return where;
}
inline fssdp::placement everywhere(fssdp::block_layout const& layout) {  // dense
  return fssdp::everywhere{}(layout);
}
inline fssdp::placement hot(fssdp::block_layout const& layout) {  // two experts of one owner to all
  auto where = fssdp::placement{layout};
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(2))
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(layout.ranks())) where.add(expert, rank);
  return where;
}

template <class T>
using buffers = std::vector<fssdp::expert_buffer<T>>;  // [rank]

inline void hot_scenes(benchmark::internal::Benchmark* of) {
  of->ArgNames({"ranks", "MiB", "cold"})->ArgsProduct({{2, 4}, {1, 4, 16}, {0}});
  of->UseManualTime()->Unit(benchmark::kMicrosecond)->MinTime(0.3);
}
/// It takes longer to empty the caches than what is measured.
inline void cold_scenes(benchmark::internal::Benchmark* of) {
  of->ArgNames({"ranks", "MiB", "cold"})->ArgsProduct({{2, 4}, {1, 4, 16}, {1}});
  of->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(20);
}
