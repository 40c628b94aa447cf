// SPDX-License-Identifier: Apache-2.0
/// What the threads could do at best: copies and sums between the same buffers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <deque>
#include <span>
#include <vector>

#include "contestant.hpp"
#include "fssdp/core/dtype.hpp"
#include "rank_memory.hpp"
#include "stream_copy.hpp"

namespace perf {

namespace detail {

/// Sums of some sources; a copy, if there is one.
template <class T>
struct sum_job {
  std::vector<T const*> from;
  T* to;
  std::size_t elements;

  [[nodiscard]] std::size_t cost() const { return (from.size() + 1) * elements; }
  /// The part from one element to another.
  [[nodiscard]] sum_job part(std::size_t first, std::size_t last) const {
    auto result = sum_job{from, to + first, last - first};
    for (auto& source : result.from) source += first;
    return result;
  }
};

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

/// A sum of a number of sources that the compiler knows.
template <std::size_t N, class T>
void plain_sum(sum_job<T> const& job) {
  using sum_type = fssdp::accumulator_t<T>;
  auto s = std::array<T const*, N>{};
  std::copy_n(job.from.begin(), N, s.begin());
  auto* const to = job.to;
  for (std::size_t i = 0; i < job.elements; ++i) {
    auto sum = static_cast<sum_type>(s[0][i]);
    for (std::size_t k = 1; k < N; ++k) sum += static_cast<sum_type>(s[k][i]);
    to[i] = static_cast<T>(sum);
  }
}

/// A sum of any number of sources, block by block.
template <class T>
void plain_sum(sum_job<T> const& job) {
  using sum_type = fssdp::accumulator_t<T>;
  constexpr auto block = std::size_t{512};
  auto sums = std::array<sum_type, block>{};
  for (std::size_t first = 0; first < job.elements; first += block) {
    auto const n = std::min(block, job.elements - first);
    std::fill_n(sums.begin(), n, sum_type{});
    for (auto const* source : job.from)
      for (std::size_t i = 0; i < n; ++i) sums[i] += static_cast<sum_type>(source[first + i]);
    for (std::size_t i = 0; i < n; ++i) job.to[first + i] = static_cast<T>(sums[i]);
  }
}

template <class T>
void form_sum(sum_job<T> const& job) {
  switch (job.from.size()) {
    case 1:
      std::memcpy(job.to, job.from.front(), job.elements * sizeof(T));
      break;
    case 2:
      plain_sum<2>(job);
      break;
    case 3:
      plain_sum<3>(job);
      break;
    case 4:
      plain_sum<4>(job);
      break;
    default:
      plain_sum(job);
  }
}

/// All that the collective brings about: every replica is a copy, every gradient a sum.
template <class T>
[[nodiscard]] std::vector<sum_job<T>> all_jobs(std::deque<rank_memory<T>>& of) {
  auto jobs = std::vector<sum_job<T>>{};
  for (auto& memory : of)
    for (auto const expert : memory.wanted()) {
      auto job = sum_job<T>{{}, memory.taken(expert).data(), memory.elements()};
      auto const& plan = memory.plan();
      if (memory.which() == collective::ag) {
        job.from.push_back(of[plan.owner(expert).index()].given(expert).data());
      } else {
        for (auto const rank : plan.where().holders(expert))
          job.from.push_back(of[rank.index()].given(expert).data());
      }
      jobs.push_back(std::move(job));
    }
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
  using job = detail::sum_job<T>;
  if (of.front().which() == collective::rs)
    return {each("local sums", [](job const& sum) { detail::form_sum(sum); })};
  auto found = std::vector<contestant>{each("memcpy", [](job const& copy) {
    std::memcpy(copy.to, copy.from.front(), copy.elements * sizeof(T));
  })};
  if (has_stream_copy())
    found.push_back(each("non-temporal", [](job const& copy) {
      stream_copy(copy.to, copy.from.front(), copy.elements * sizeof(T));
    }));
  return found;
}

}  // namespace perf
