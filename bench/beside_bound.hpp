// SPDX-License-Identifier: Apache-2.0
/// Measures a collective beside its bound, in the same run and on the same threads.
///
/// bytes_per_second counts what the plan moves, bound_bytes_per_second is the same for the bound,
/// of_bound is their ratio: 1 if the library costs nothing. All three are from the best call of
/// each, as what other programs take from the machine is not ours; the time is an average.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <limits>
#include <vector>

#include "fssdp/comm/thread.hpp"

/// Takes the time that all ranks together need for a piece of work.
class stopwatch {
  using clock = std::chrono::steady_clock;

 public:
  explicit stopwatch(int ranks)
      : together_{ranks},
        begin_(static_cast<std::size_t>(ranks)),
        end_(static_cast<std::size_t>(ranks)) {}

  /// Called by every rank: they begin together. Returns the seconds from the first begin to the
  /// last end, on every rank.
  template <class Work>
  double run(fssdp::rank_id rank, Work work) {
    together_.arrive_and_wait();
    begin_[rank.index()] = clock::now();
    try {
      work();
    } catch (...) {
      together_.arrive_and_drop();  // no rank waits for one that has failed
      throw;
    }
    end_[rank.index()] = clock::now();
    together_.arrive_and_wait();
    auto const taken = std::ranges::max(end_) - std::ranges::min(begin_);
    return std::chrono::duration<double>{taken}.count();
  }

 private:
  std::barrier<> together_;
  std::vector<clock::time_point> begin_;  // [rank]
  std::vector<clock::time_point> end_;    // [rank]
};

/// What is in the caches when a call begins: what the calls before it have left there, or none of
/// it.
enum class caches { hot, cold };

/// What is measured: so many ranks move so many bytes in one call.
struct setting {
  int ranks;
  std::size_t bytes;
  caches begin_with = caches::hot;
};

/// Runs collective(comm) on the ranks of a thread_world and, in turns with it, bound(rank) on
/// the same threads. The fastest of these is the bound.
template <class Collective, class... Bounds>
void measure(benchmark::State& state, setting const& of, Collective collective, Bounds... bounds) {
  constexpr auto calls = 3;  // the first finds what others have left in the caches
  constexpr auto other_bytes = std::size_t{96} << 20U;  // more than the caches hold
  auto const ranks = static_cast<std::size_t>(of.ranks);
  auto const other_memory_bytes = of.begin_with == caches::cold ? other_bytes / ranks : 0;
  auto other_memory = std::vector(ranks, std::vector<char>(other_memory_bytes));
  auto least = std::numeric_limits<double>::infinity();
  auto best = least;
  for (auto _ : state) {
    auto total = 0.0;
    auto watch = stopwatch{of.ranks};
    fssdp::thread_world{of.ranks}.run([&](fssdp::thread_communicator& comm) {
      auto const me = comm.rank();
      auto const repeat = [&](double& shortest, auto work) {
        auto sum = 0.0;
        for (int call = 0; call < calls; ++call) {
          std::ranges::fill(other_memory[me.index()], static_cast<char>(call));
          auto const seconds = watch.run(me, work);
          if (me == fssdp::rank_id{0}) shortest = std::min(shortest, seconds);
          sum += seconds;
        }
        return sum;
      };
      (repeat(least, [&] { bounds(me); }), ...);
      auto const seconds = repeat(best, [&] { collective(comm); });
      if (me == fssdp::rank_id{0}) total = seconds;
    });
    state.SetIterationTime(total / calls);
  }
  auto const per_second = [&](double seconds) {
    return benchmark::Counter{static_cast<double>(of.bytes) / seconds,
                              benchmark::Counter::kDefaults, benchmark::Counter::kIs1024};
  };
  state.counters["bytes_per_second"] = per_second(best);
  state.counters["bound_bytes_per_second"] = per_second(least);
  state.counters["of_bound"] = least / best;
}
