// SPDX-License-Identifier: Apache-2.0
/// The collectives as contestants call them, and what makes a contestant complete.
#pragma once

#include <cstddef>
#include <utility>

#include "contestant.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "rank_memory.hpp"

namespace perf {

template <class Comm, class T>
void call_fssdp(Comm& comm, fssdp::transfer_plan const& plan, rank_memory<T>& mine) {
  if (mine.which() == collective::ag)
    fssdp::sparse_all_gather(comm, plan, mine.from(), mine.to(), {.scratch = &mine.scratch()});
  else
    fssdp::sparse_reduce_scatter(comm, plan, mine.from(), mine.to(), {.scratch = &mine.scratch()});
}

/// Completes a contestant that works on the memory of the rank that the process stands for.
template <class T>
[[nodiscard]] contestant checked(contestant one, rank_memory<T>& mine) {
  one.spoil = [&mine](fssdp::rank_id) { mine.spoil(); };
  one.wrong = [&mine](fssdp::rank_id) { return mine.wrong(); };
  return one;
}

}  // namespace perf
