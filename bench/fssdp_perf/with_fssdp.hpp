// SPDX-License-Identifier: Apache-2.0
/// The collectives of fssdp as contestants.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <utility>

#include "contestant.hpp"
#include "fssdp/collective/all_gather_v.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "measured_plan.hpp"
#include "rank_memory.hpp"

namespace perf {

namespace detail {

template <class Options, class Memory>
[[nodiscard]] Options with_scratch(Memory& mine) {
  auto options = Options{.scratch = &mine.scratch()};
  if constexpr (requires { mine.device_scratch(); }) options.device_scratch = mine.device_scratch();
  return options;
}

/// All slots of a tensor, which lie one right after the other.
template <class T>
[[nodiscard]] std::span<T> whole(fssdp::expert_tensor<T> const& of) {
  return {of.data, of.offsets[of.slots] * of.elements};
}

template <class Comm, class Memory>
void call_on_arrays(Comm& comm, fssdp::uneven_plan const& plan, Memory& mine) {
  auto const from = whole(fssdp::tensors_of(mine.from()).front());
  auto const to = whole(fssdp::tensors_of(mine.to()).front());
  if (mine.which() == collective::ag)
    fssdp::all_gather_v(comm, plan, from, to, {}, with_scratch<fssdp::gather_options>(mine));
  else
    fssdp::reduce_scatter_v(comm, plan, from, to, {}, with_scratch<fssdp::reduce_options>(mine));
}

}  // namespace detail

template <class Comm, class Memory>
void call_fssdp(Comm& comm, measured_plan const& by, Memory& mine) {
  if (by.of_array.has_value())
    detail::call_on_arrays(comm, *by.of_array, mine);
  else if (mine.which() == collective::ag)
    fssdp::sparse_all_gather(comm, by.plan, mine.from(), mine.to(),
                             detail::with_scratch<fssdp::gather_options>(mine));
  else
    fssdp::sparse_reduce_scatter(comm, by.plan, mine.from(), mine.to(),
                                 detail::with_scratch<fssdp::reduce_options>(mine));
}

/// On the memory of all ranks, [rank].
/// @pre the plan outlives it
template <class Comm = fssdp::thread_communicator, class Memory>
[[nodiscard]] basic_contestant<Comm> with_fssdp(std::string name, measured_plan const& plan,
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
