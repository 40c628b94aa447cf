// SPDX-License-Identifier: Apache-2.0
/// The buffers of all ranks for one placement, where this process has them all.
#pragma once

#include <cstddef>
#include <deque>
#include <future>
#include <vector>

#include "rank_memory.hpp"

namespace perf {

template <class T>
using world_memory = std::deque<rank_memory<T>>;  // [rank]

/// @param elements of an expert, or of a row
/// @pre the plan outlives it
template <class T>
[[nodiscard]] world_memory<T> make_memory(collective which, fssdp::transfer_plan const& plan,
                                          std::size_t elements) {
  auto made = std::vector<std::future<rank_memory<T>>>{};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(plan.ranks()))
    made.push_back(std::async(std::launch::async, [&plan, which, rank, elements] {
      return rank_memory<T>{which, plan, rank, elements};
    }));
  auto memory = world_memory<T>{};
  for (auto& one : made) memory.push_back(one.get());
  return memory;
}

}  // namespace perf
