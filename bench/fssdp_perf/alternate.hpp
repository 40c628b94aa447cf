// SPDX-License-Identifier: Apache-2.0
/// Runs contestants in turns, so that all are measured under the same conditions.
#pragma once

#include <cstddef>
#include <functional>
#include <numeric>
#include <vector>

#include "cache_eraser.hpp"
#include "contestant.hpp"
#include "options.hpp"
#include "process_team.hpp"

namespace perf {

/// Times every contestant `of.iterations` times, in turns, and checks what they bring about.
/// @param world runs a function on every rank: a thread_world, or one of devices
/// @param team null if no contestant runs in processes; else called by process 0, while the others
///        follow
/// @return [contestant]
template <class World, class Comm>
[[nodiscard]] std::vector<outcome> alternate(World& world,
                                             std::vector<basic_contestant<Comm>> const& contestants,
                                             options const& of, process_team* team) {
  auto outcomes = std::vector<outcome>(contestants.size());
  auto watch = stopwatch{of.ranks};
  auto eraser = cache_eraser{of.ranks};
  auto wrong = std::vector<std::size_t>(static_cast<std::size_t>(of.ranks));
  auto const take_turns = [&](Comm& comm) {
    auto const me = comm.rank();
    auto const first = me == fssdp::rank_id{0};
    auto const call = [&](basic_contestant<Comm> const& one) {  // returns the seconds on rank 0
      if (one.on_threads) {
        auto const taken = watch.time(me, [&] { one.on_threads(comm); });
        return one.seconds ? watch.longest(me, one.seconds(me)) : taken;
      }
      auto const seconds = first ? team->time(one.on_processes) : 0.0;
      watch.wait();
      return seconds;
    };
    for (int turn = 0; turn < of.warmup + of.iterations; ++turn)
      for (std::size_t n = 0; n < contestants.size(); ++n) {
        auto const which = (n + static_cast<std::size_t>(turn)) % contestants.size();
        if (of.memory == memory::hot)
          call(contestants[which]);
        else
          eraser.erase(me);
        auto const seconds = call(contestants[which]);
        if (first && turn >= of.warmup) outcomes[which].seconds.push_back(seconds);
      }
    for (std::size_t n = 0; of.check && n < contestants.size(); ++n) {
      auto const& one = contestants[n];
      auto const mine = first || one.on_threads;
      if (mine) one.spoil(me);
      call(one);
      wrong[me.index()] = mine ? one.wrong(me) : 0;
      watch.wait();
      if (first) outcomes[n].wrong = std::accumulate(wrong.begin(), wrong.end(), std::size_t{0});
      if (first && one.on_processes) outcomes[n].wrong = team->sum(outcomes[n].wrong);
      watch.wait();
    }
  };
  world.run([&](Comm& comm) {
    try {
      take_turns(comm);
    } catch (...) {
      watch.leave();
      throw;
    }
  });
  return outcomes;
}

/// The same for contestants that all run in processes: called by every process.
/// @return [contestant], on every process
[[nodiscard]] inline std::vector<outcome> alternate(std::vector<contestant> const& contestants,
                                                    options const& of, process_team& team) {
  auto outcomes = std::vector<outcome>(contestants.size());
  auto eraser = cache_eraser{of.ranks};
  for (int turn = 0; turn < of.warmup + of.iterations; ++turn)
    for (std::size_t n = 0; n < contestants.size(); ++n) {
      auto const which = (n + static_cast<std::size_t>(turn)) % contestants.size();
      auto const& call = contestants[which].on_processes;
      if (of.memory == memory::hot)
        team.time(call);
      else
        eraser.erase(team.rank());
      auto const seconds = team.time(call);
      if (turn >= of.warmup) outcomes[which].seconds.push_back(seconds);
    }
  for (std::size_t n = 0; of.check && n < contestants.size(); ++n) {
    contestants[n].spoil(team.rank());
    team.time(contestants[n].on_processes);
    outcomes[n].wrong = team.sum(contestants[n].wrong(team.rank()));
  }
  return outcomes;
}

/// The part of another process: its turns of the one contestant that runs in processes.
inline void follow(contestant const& one, options const& of, process_team& team) {
  auto eraser = cache_eraser{of.ranks};
  for (int turn = 0; turn < of.warmup + of.iterations; ++turn) {
    if (of.memory == memory::hot)
      team.time(one.on_processes);
    else
      eraser.erase(team.rank());
    team.time(one.on_processes);
  }
  if (!of.check) return;
  one.spoil(team.rank());
  team.time(one.on_processes);
  team.sum(one.wrong(team.rank()));
}

}  // namespace perf
