// SPDX-License-Identifier: Apache-2.0
/// The work of a collective, independent of what does it: copies and sums between its buffers.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "rank_memory.hpp"

namespace perf {

/// to = from[0] + from[1] + ...; a copy, if there is one.
template <class T>
struct sum_job {
  std::vector<T const*> from;
  T* to;
  std::size_t elements;

  /// What is read and written, in elements.
  [[nodiscard]] std::size_t cost() const { return (from.size() + 1) * elements; }
  /// The part from one element to another.
  [[nodiscard]] sum_job part(std::size_t first, std::size_t last) const {
    auto result = sum_job{from, to + first, last - first};
    for (auto& source : result.from) source += first;
    return result;
  }
};

/// What a collective brings about on one rank: every replica is a copy, every gradient a sum.
/// @param of [rank]
template <class Memory>
[[nodiscard]] auto jobs_of(Memory& mine, std::deque<Memory>& of) {
  using T = typename Memory::value_type;
  auto const& plan = mine.plan();
  auto jobs = std::vector<sum_job<T>>{};
  for (auto const expert : mine.wanted()) {
    auto job = sum_job<T>{{}, mine.taken(expert).data(), mine.elements(expert)};
    if (mine.which() == collective::ag) {
      job.from.push_back(of[plan.owner(expert).index()].given(expert).data());
    } else {
      for (auto const rank : plan.where().holders(expert))
        job.from.push_back(of[rank.index()].given(expert).data());
    }
    jobs.push_back(std::move(job));
  }
  return jobs;
}

}  // namespace perf
