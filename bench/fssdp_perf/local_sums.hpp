// SPDX-License-Identifier: Apache-2.0
/// Sums of some sources as plain loops, written in three ways: which is fastest depends on the
/// machine.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "fssdp/element/dtype.hpp"
#include "jobs_of.hpp"
#include "stream_copy.hpp"

namespace perf {

namespace detail {

/// All sources at once, a number of them that the compiler knows.
template <std::size_t N, class T>
void sum_of(sum_job<T> const& job) {
  auto s = std::array<T const*, N>{};
  std::copy_n(job.from.begin(), N, s.begin());
  auto* const to = job.to;
  for (std::size_t i = 0; i < job.elements; ++i) {
    auto sum = static_cast<fssdp::accumulator_t<T>>(s[0][i]);
    for (std::size_t k = 1; k < N; ++k) sum += static_cast<fssdp::accumulator_t<T>>(s[k][i]);
    to[i] = static_cast<T>(sum);
  }
}

/// One source after the other, block by block; `put` brings a block to where it belongs.
template <class T, class Put>
void sum_blocks(sum_job<T> const& job, Put put) {
  constexpr auto block = std::size_t{1024};  // stays in the first-level cache
  auto sums = std::array<fssdp::accumulator_t<T>, block>{};
  auto out = std::array<T, block>{};
  for (std::size_t first = 0; first < job.elements; first += block) {
    auto const n = std::min(block, job.elements - first);
    auto const* const source = job.from.front() + first;
    for (std::size_t i = 0; i < n; ++i) sums[i] = static_cast<fssdp::accumulator_t<T>>(source[i]);
    for (std::size_t k = 1; k < job.from.size(); ++k) {
      auto const* const next = job.from[k] + first;
      for (std::size_t i = 0; i < n; ++i) sums[i] += static_cast<fssdp::accumulator_t<T>>(next[i]);
    }
    for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<T>(sums[i]);
    put(job.to + first, out.data(), n * sizeof(T));
  }
}

}  // namespace detail

/// One source after the other, block by block.
template <class T>
void block_sum(sum_job<T> const& job) {
  if (job.from.size() == 1)
    std::memcpy(job.to, job.from.front(), job.elements * sizeof(T));
  else
    detail::sum_blocks(
        job, [](T* to, T const* from, std::size_t bytes) { std::memcpy(to, from, bytes); });
}

/// The same past the caches.
template <class T>
void stream_sum(sum_job<T> const& job) {
  if (job.from.size() == 1)
    stream_copy(job.to, job.from.front(), job.elements * sizeof(T));
  else
    detail::sum_blocks(
        job, [](T* to, T const* from, std::size_t bytes) { stream_copy(to, from, bytes); });
  end_of_stream();
}

/// All sources at once, if they are few.
template <class T>
void plain_sum(sum_job<T> const& job) {
  switch (job.from.size()) {
    case 2:
      detail::sum_of<2>(job);
      break;
    case 3:
      detail::sum_of<3>(job);
      break;
    case 4:
      detail::sum_of<4>(job);
      break;
    default:
      block_sum(job);
  }
}

}  // namespace perf
