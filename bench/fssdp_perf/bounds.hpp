// SPDX-License-Identifier: Apache-2.0
/// What the threads could do at best: copies and sums between the same buffers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <iterator>
#include <utility>
#include <vector>

#include "contestant.hpp"
#include "jobs_of.hpp"
#include "local_sums.hpp"
#include "rank_memory.hpp"

namespace perf {

namespace detail {

/// Cuts the jobs so that every thread has an equal share of what is read and written.
template <class T>
[[nodiscard]] std::vector<std::vector<sum_job<T>>> even_shares(std::vector<sum_job<T>> const& jobs,
                                                               std::size_t threads) {
  constexpr auto grain = 4096 / sizeof(T);
  auto total = std::size_t{0};
  for (auto const& job : jobs) total += job.cost();
  auto shares = std::vector<std::vector<sum_job<T>>>(threads);
  auto done = std::size_t{0};
  auto thread = std::size_t{0};
  for (auto const& job : jobs)
    for (std::size_t first = 0; first < job.elements;) {
      auto const limit = thread + 1 == threads ? total : total * (thread + 1) / threads;
      auto const fits = (limit - std::min(limit, done)) / (job.from.size() + 1);
      auto const left = job.elements - first;
      auto const n = thread + 1 == threads || fits >= left ? left : fits / grain * grain;
      if (n != 0) shares[thread].push_back(job.part(first, first + n));
      first += n;
      done += n * (job.from.size() + 1);
      if (first < job.elements) ++thread;
    }
  return shares;
}

/// All that the collective brings about: every replica is a copy, every gradient a sum.
template <class T>
[[nodiscard]] std::vector<sum_job<T>> all_jobs(std::deque<rank_memory<T>>& of) {
  auto jobs = std::vector<sum_job<T>>{};
  for (auto& memory : of) std::ranges::move(jobs_of(memory, of), std::back_inserter(jobs));
  return jobs;
}

}  // namespace detail

/// The bounds of a collective over the memory of all ranks, [rank].
template <class T>
[[nodiscard]] std::vector<contestant> bounds(std::deque<rank_memory<T>>& of) {
  auto const shares = detail::even_shares(detail::all_jobs(of), of.size());
  auto const each = [&](char const* name, auto work) {
    return contestant{.name = name, .on_threads = [shares, work](fssdp::thread_communicator& comm) {
                        for (auto const& job : shares[comm.rank().index()]) work(job);
                      }};
  };
  using work = sum_job<T> const&;
  auto const gathers = of.front().which() == collective::ag;
  auto found = std::vector{each(gathers ? "memcpy" : "block sums", [](work w) { block_sum(w); })};
  if (!gathers) found.push_back(each("plain sums", [](work w) { plain_sum(w); }));
  if (has_stream_copy())
    found.push_back(each(gathers ? "non-temporal" : "stream sums", [](work w) { stream_sum(w); }));
  return found;
}

}  // namespace perf
