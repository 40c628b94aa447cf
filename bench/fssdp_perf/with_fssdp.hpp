// SPDX-License-Identifier: Apache-2.0
/// The collectives as contestants call them, and what makes a contestant complete.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <utility>

#include "contestant.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "rank_memory.hpp"

namespace perf {

namespace detail {

template <class Options, class Memory>
[[nodiscard]] Options with_scratch(Memory& mine) {
  auto options = Options{.scratch = &mine.scratch()};
  if constexpr (requires { mine.device_scratch(); }) options.device_scratch = mine.device_scratch();
  return options;
}

}  // namespace detail

template <class Comm, class Memory>
void call_fssdp(Comm& comm, fssdp::transfer_plan const& plan, Memory& mine) {
  if (mine.which() == collective::ag)
    fssdp::sparse_all_gather(comm, plan, mine.from(), mine.to(),
                             detail::with_scratch<fssdp::gather_options>(mine));
  else
    fssdp::sparse_reduce_scatter(comm, plan, mine.from(), mine.to(),
                                 detail::with_scratch<fssdp::reduce_options>(mine));
}

/// On the memory of all ranks, [rank].
/// @pre the plan outlives it
template <class Comm = fssdp::thread_communicator, class Memory>
[[nodiscard]] basic_contestant<Comm> with_fssdp(std::string name, fssdp::transfer_plan const& plan,
                                                std::deque<Memory>& of) {
  return {.name = std::move(name),
          .on_threads = [&](Comm& comm) { call_fssdp(comm, plan, of[comm.rank().index()]); }};
}

/// Completes contestants that work on the memory of all ranks, [rank].
template <class Comm, class Memory>
[[nodiscard]] basic_contestant<Comm> checked(basic_contestant<Comm> one, std::deque<Memory>& of) {
  one.spoil = [&of](fssdp::rank_id rank) { of[rank.index()].spoil(); };
  one.wrong = [&of](fssdp::rank_id rank) { return of[rank.index()].wrong(); };
  return one;
}
/// Completes a contestant that works on the memory of the rank that the process stands for.
template <class T>
[[nodiscard]] contestant checked(contestant one, rank_memory<T>& mine) {
  one.spoil = [&mine](fssdp::rank_id) { mine.spoil(); };
  one.wrong = [&mine](fssdp::rank_id) { return mine.wrong(); };
  return one;
}

}  // namespace perf
