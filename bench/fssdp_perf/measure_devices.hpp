// SPDX-License-Identifier: Apache-2.0
/// Which contestants a measurement between devices has, and its results, for any back end.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "alternate.hpp"
#include "device_memory.hpp"
#include "measure.hpp"
#include "measured_plan.hpp"
#include "port_model.hpp"
#include "simulate.hpp"
#include "stream_timers.hpp"
#include "task.hpp"
#include "with_fssdp.hpp"
#include "world_memory.hpp"

namespace perf {

/// How many there are; none also where there is no driver.
[[nodiscard]] inline int device_count() {
  auto count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  (void)cudaGetLastError();
  return 0;
}

namespace detail {

/// The buffers of all ranks, on the host and on their devices.
template <class T>
struct placed_memory {
  world_memory<T> host;
  std::deque<device_memory<T>> device;

  template <class Ranks>
  placed_memory(collective which, fssdp::transfer_plan const& plan, std::size_t elements,
                Ranks const& ranks)
      : host{make_memory<T>(which, plan, elements)},
        device{on_devices(host, [&](fssdp::rank_id rank) { return ranks.device_of(rank); })} {}
};

/// fssdp by a plan, on memory with room for what that relays.
template <class Comm, class T>
[[nodiscard]] basic_contestant<Comm> by_plan(std::string name, measured_plan const& plan,
                                             placed_memory<T>& memory) {
  for (auto& mine : memory.device) mine.reserve_scratch(plan.plan);
  return checked(with_fssdp<Comm>(std::move(name), plan, memory.device), memory.device);
}

}  // namespace detail

/// @param ranks what joins them: a type `communicator`, and `world`, which runs a function on every
///        rank; device_of(rank); bounds(memory, found), contestants, and tell_bound(of, name,
///        seconds, found), what the best of them says; broadcasts(memory), a baseline
template <class T, class Ranks>
[[nodiscard]] result measure_devices(job const& what, options const& of, Ranks& ranks) {
  using comm = typename Ranks::communicator;
  auto const moved = task_of(what, of);
  auto const direct = measured_plan{moved.direct(), moved.most_bytes()};
  auto const plan = plan_of(of, moved);
  auto dense_plan = std::optional<measured_plan>{};
  auto found = describe(what, of, moved);
  found.baseline = of.baseline;
  found.plan_seconds = seconds_to_plan(of, moved);
  count_bytes(plan, found);
  bound_by_ports(plan, of, found);

  auto memory = detail::placed_memory<T>{what.collective, direct.plan, moved.elements, ranks};
  auto dense = std::optional<detail::placed_memory<T>>{};
  auto contestants = std::vector{detail::by_plan<comm>("fssdp", plan, memory)};
  for (auto& bound : ranks.bounds(memory.device, found)) contestants.push_back(std::move(bound));
  auto const bounds_end = contestants.size();
  switch (of.baseline) {
    case baseline::none:
      break;
    case baseline::direct:
      contestants.push_back(detail::by_plan<comm>("direct", direct, memory));
      break;
    case baseline::broadcast:
      contestants.push_back(checked(ranks.broadcasts(memory.device), memory.device));
      break;
    case baseline::dense:
      dense_plan = plan_of(of, everywhere(moved));
      dense.emplace(what.collective, dense_plan->plan, moved.elements, ranks);
      contestants.push_back(detail::by_plan<comm>("dense", *dense_plan, *dense));
      break;
    default:
      throw std::logic_error{"options that have not been validated"};
  }
  for (auto& one : contestants) one = on_streams(std::move(one), of.ranks);

  auto const outcomes = alternate(ranks.world, contestants, of, nullptr);
  found.seconds = median(outcomes.front().seconds);
  auto const best = best_of(std::span{outcomes}.subspan(1, bounds_end - 1));
  ranks.tell_bound(of, contestants[1 + best.which].name, best.seconds, found);
  found.tight_bound_seconds = found.bound_seconds;
  if (of.check) found.wrong = outcomes.front().wrong;
  for (std::size_t n = 1; n < outcomes.size(); ++n) found.baseline_wrong += outcomes[n].wrong;
  if (bounds_end == outcomes.size()) return found;
  found.baseline_seconds = median(outcomes.back().seconds);
  found.baseline_setup_seconds = contestants.back().setup_seconds;
  return found;
}

}  // namespace perf
