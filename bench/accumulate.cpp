// SPDX-License-Identifier: Apache-2.0
// Sums of k sources. Bound: the same threads read and write as many bytes in copies, with memcpy or
// with stores that bypass the caches, whichever is faster. Half of the bytes of a copy are writes,
// fewer of a sum: so a sum can be faster than its bound.
#include "fssdp/element/accumulate.hpp"

#include <cstring>
#include <span>
#include <vector>

#include "beside_bound.hpp"
#include "fssdp/all.hpp"
#include "fssdp/memory/copy_bytes.hpp"

namespace {

using fssdp::bf16;
using fssdp::fp8_e4m3;
using fssdp::fp8_e5m2;

/// What one thread sums.
template <class T>
struct operands {
  fssdp::expert_buffer<T> sources;
  fssdp::expert_buffer<float> sum;
  std::vector<fssdp::summand> list;

  operands(std::size_t k, std::size_t elements)
      : sources{k, std::span{&elements, 1}}, sum{1, std::span{&elements, 1}} {
    for (std::size_t i = 0; i < k; ++i)
      list.push_back({.partial = sources.tensors().front()[i].data()});
  }
  [[nodiscard]] std::size_t traffic() const { return sources.bytes() + sum.bytes(); }
};

/// The arguments are threads, k and the MiB of the sum.
template <class T>
void accumulate(benchmark::State& state) {
  auto const threads = static_cast<int>(state.range(0));
  auto const k = static_cast<std::size_t>(state.range(1));
  auto const elements = (static_cast<std::size_t>(state.range(2)) << 20U) / sizeof(float);
  auto of = std::vector<operands<T>>{};
  auto copies = std::vector<fssdp::expert_buffer<std::byte>>{};  // [from and to]
  for (int thread = 0; thread < threads; ++thread) {
    auto const half = of.emplace_back(k, elements).traffic() / 2;
    copies.emplace_back(2, std::span{&half, 1});
  }
  auto const copy_half = [&](fssdp::rank_id me, auto copy) {
    auto const pair = copies[me.index()].tensors().front();
    copy(pair[1], std::span<std::byte const>{pair[0]});
    benchmark::ClobberMemory();
  };
  measure(
      state, {.ranks = threads, .bytes = static_cast<std::size_t>(threads) * of.front().traffic()},
      [&](auto& comm) {
        auto& mine = of[comm.rank().index()];
        fssdp::accumulate<T, float>(mine.list, mine.sum.tensors().front()[0]);
        benchmark::ClobberMemory();
      },
      [&](fssdp::rank_id me) {
        copy_half(me, [](auto to, auto from) { std::memcpy(to.data(), from.data(), from.size()); });
      },
      [&](fssdp::rank_id me) { copy_half(me, fssdp::detail::copy_past_caches); });
}

void sums(benchmark::internal::Benchmark* of) {
  of->ArgNames({"threads", "k", "MiB"});
  of->ArgsProduct({{1, 2}, benchmark::CreateDenseRange(1, 8, 1), {1, 4, 16, 64}});
  of->UseManualTime()->Unit(benchmark::kMicrosecond)->MinTime(0.1);
}

BENCHMARK(accumulate<float>)->Apply(sums);
BENCHMARK(accumulate<bf16>)->Apply(sums);
BENCHMARK(accumulate<fp8_e4m3>)->Apply(sums);
BENCHMARK(accumulate<fp8_e5m2>)->Apply(sums);

}  // namespace
