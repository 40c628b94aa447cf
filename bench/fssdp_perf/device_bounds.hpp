// SPDX-License-Identifier: Apache-2.0
/// What devices could do at best: copies and sums of their own, between the same buffers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "contestant.hpp"
#include "device_memory.hpp"
#include "fssdp/element/accumulate.hpp"
#include "jobs_of.hpp"
#include "sum_elements.hpp"
#include "with_fssdp.hpp"

namespace perf {

namespace detail {

/// The same bytes from the same buffers: every replica is copied by the rank that gets it, one
/// message after the other, all ranks together.
template <class Comm, class T>
void copy_all(Comm& comm, std::vector<sum_job<T>> const& jobs) {
  for (auto const& job : jobs)
    comm.copy(std::as_writable_bytes(std::span{job.to, job.elements}),
              std::as_bytes(std::span{job.from.front(), job.elements}));
}
/// The same sums by the library's kernels, read where the partials are.
template <class Comm, class T>
void sum_all(Comm& comm, std::vector<sum_job<T>> const& jobs) {
  auto summands = std::vector<fssdp::summand>{};
  for (auto const& job : jobs) {
    summands.clear();
    for (auto const* const partial : job.from) summands.push_back({.partial = partial});
    sum_elements(comm, summands, std::span{job.to, job.elements});
  }
}

/// Calls work(comm, jobs) with what a collective brings about on the calling rank.
template <class Comm, class T, class Work>
[[nodiscard]] basic_contestant<Comm> on_jobs(char const* name, std::deque<device_memory<T>>& of,
                                             Work work) {
  auto jobs = std::vector<std::vector<sum_job<T>>>{};
  for (auto& mine : of) jobs.push_back(jobs_of(mine, of));
  return {.name = name, .on_threads = [jobs = std::move(jobs), work](Comm& comm) {
            work(comm, jobs[comm.rank().index()]);
          }};
}

/// A contestant whose outcome is its time alone.
template <class Comm>
[[nodiscard]] basic_contestant<Comm> unchecked(basic_contestant<Comm> one) {
  one.spoil = [](fssdp::rank_id) {};
  one.wrong = [](fssdp::rank_id) { return std::size_t{0}; };
  return one;
}

/// Every rank copies so many bytes from a block of another one, all ranks together.
/// @param bytes [rank]
/// @param source(rank) says whose block it reads
template <class Comm, class T, class Source>
[[nodiscard]] basic_contestant<Comm> copies(char const* name, std::deque<device_memory<T>>& of,
                                            std::vector<std::size_t> const& bytes, Source source) {
  struct blocks {
    fssdp::detail::cuda_bytes from;
    fssdp::detail::cuda_bytes to;
  };
  auto const most = std::ranges::max(bytes);
  auto made = std::make_shared<std::vector<blocks>>();
  for (auto& mine : of) made->push_back({mine.make_block(most), mine.make_block(most)});
  return unchecked<Comm>(
      {.name = name, .on_threads = [made, bytes, source](Comm& comm) {
         auto const me = comm.rank().index();
         if (bytes[me] == 0) return;
         comm.copy({(*made)[me].to.get(), bytes[me]}, {(*made)[source(me)].from.get(), bytes[me]});
       }});
}

}  // namespace detail

/// The bounds where ranks read each other's memory, [rank]. A sum of k partials reads k times what
/// it writes, a copy as much: where all are on one device, so many bytes are as fast as copies of
/// half of them, at best.
template <class Comm, class T>
[[nodiscard]] std::vector<basic_contestant<Comm>> shared_memory_bounds(
    std::deque<device_memory<T>>& of, bool one_device) {
  if (of.front().which() == collective::ag)
    return {checked(
        detail::on_jobs<Comm>("copies", of,
                              [](Comm& comm, auto const& jobs) { detail::copy_all(comm, jobs); }),
        of)};
  auto bounds = std::vector{
      checked(detail::on_jobs<Comm>(
                  "sums", of, [](Comm& comm, auto const& jobs) { detail::sum_all(comm, jobs); }),
              of)};
  if (!one_device) return bounds;
  auto bytes = std::vector<std::size_t>{};
  for (auto& mine : of) {
    auto moved = std::size_t{0};  // elements
    for (auto const& job : jobs_of(mine, of)) moved += job.cost();
    bytes.push_back(moved * sizeof(T) / 2);
  }
  bounds.push_back(
      detail::copies<Comm>("copies", of, bytes, [](std::size_t rank) { return rank; }));
  return bounds;
}

/// What the ports of the devices attain: each copies from the next one, all at once.
template <class Comm, class T>
[[nodiscard]] basic_contestant<Comm> link_copies(std::deque<device_memory<T>>& of,
                                                 std::size_t bytes) {
  auto const ranks = of.size();
  return detail::copies<Comm>("links", of, std::vector(ranks, bytes),
                              [ranks](std::size_t rank) { return (rank + 1) % ranks; });
}

}  // namespace perf
