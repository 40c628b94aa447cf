// SPDX-License-Identifier: Apache-2.0
// Which contestants a measurement has, and its results.
#include "measure.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "alternate.hpp"
#include "bounds.hpp"
#include "device_ranks.hpp"
#include "fssdp/comm/counting.hpp"
#include "gloo_contestant.hpp"
#include "in_turn.hpp"
#include "measure_processes.hpp"
#include "measured_plan.hpp"
#include "port_model.hpp"
#include "simulate.hpp"
#include "task.hpp"
#include "with_fssdp.hpp"
#include "world_memory.hpp"

namespace perf {
namespace {

/// What goes over the wire in one call.
template <class T>
void count_bytes(fssdp::thread_world& world, measured_plan const& plan, world_memory<T>& of,
                 result& found) {
  auto counts = std::vector<fssdp::exchange_counts>(of.size());
  world.run([&](fssdp::thread_communicator& comm) {
    auto counted = fssdp::counting{comm};
    call_fssdp(counted, plan, of[comm.rank().index()]);
    counts[comm.rank().index()] = counted.counts();
  });
  for (auto const& count : counts) {
    found.wire += count.bytes_sent;
    found.busiest_port = std::max({found.busiest_port, count.bytes_sent, count.bytes_received});
  }
}

/// What processes other than the first do.
template <class T>
void follow(job const& what, options const& of, process_team& team, task const& moved) {
  auto const direct = moved.direct();
  auto mine = rank_memory<T>{what.collective, direct, team.rank(), moved.elements};
  follow(checked(mpi_contestant(team, of.baseline, mine), mine), of, team);
}

template <class T>
[[nodiscard]] result lead(job const& what, options const& of, process_team* team,
                          task const& moved) {
  auto const direct = measured_plan{moved.direct(), moved.most_bytes()};
  auto const plan = plan_of(of, moved);
  auto memory = make_memory<T>(what.collective, direct.plan, moved.elements);
  auto contestants = std::vector{checked(with_fssdp("fssdp", plan, memory), memory)};
  auto const ports = of.rate > 0;  // emulated links are the bound, not the machine
  if (!ports)
    for (auto& bound : bounds(memory)) contestants.push_back(checked(std::move(bound), memory));
  auto const bounds_end = contestants.size();

  auto dense_plan = std::optional<measured_plan>{};
  auto dense_memory = world_memory<T>{};
  switch (of.baseline) {
    case baseline::none:
      break;
    case baseline::direct:
      contestants.push_back(checked(with_fssdp("direct", direct, memory), memory));
      break;
    case baseline::broadcast:
      contestants.push_back(checked(in_turn(memory), memory));
      break;
    case baseline::chain:
    case baseline::star:
      throw std::invalid_argument{"--baseline " + std::string{name_of(of.baseline)} +
                                  ": expected --simulate with it"};
    case baseline::dense:
      dense_plan = plan_of(of, everywhere(moved));
      dense_memory = make_memory<T>(what.collective, dense_plan->plan, moved.elements);
      contestants.push_back(checked(with_fssdp("dense", *dense_plan, dense_memory), dense_memory));
      break;
    case baseline::neighbor:
    case baseline::mpi_broadcast:
    case baseline::mpi_v:
      contestants.push_back(
          checked(mpi_contestant(*team, of.baseline, memory.front()), memory.front()));
      break;
    case baseline::gloo:
    case baseline::gloo_broadcast:
    case baseline::gloo_v:
      contestants.push_back(checked(gloo_contestant(of.baseline, memory), memory));
      break;
  }

  auto world = world_of(of);
  auto found = describe(what, of, moved);
  found.baseline = of.baseline;
  found.plan_seconds = seconds_to_plan(of, moved);
  count_bytes(world, plan, memory, found);
  auto const outcomes = alternate(world, contestants, of, team);
  found.seconds = median(outcomes.front().seconds);
  if (ports) {
    bound_by_ports(plan, of, found);
    found.simulated_seconds = fssdp::simulate(plan.plan, plan.chunk_bytes).seconds;
  } else {
    auto const best = best_of(std::span{outcomes}.subspan(1, bounds_end - 1));
    found.bound_seconds = best.seconds;
    found.bound = contestants[1 + best.which].name;
    found.tight_bound_seconds = found.bound_seconds;
  }
  if (of.check) found.wrong = outcomes.front().wrong;
  for (std::size_t n = 1; n < outcomes.size(); ++n) found.baseline_wrong += outcomes[n].wrong;
  if (bounds_end < outcomes.size()) found.baseline_seconds = median(outcomes.back().seconds);
  return found;
}

template <class T>
[[nodiscard]] std::optional<result> measure_as(job const& what, options const& of,
                                               process_team* team) {
  auto const moved = task_of(what, of);
  if (team == nullptr || team->rank() == fssdp::rank_id{0}) return lead<T>(what, of, team, moved);
  follow<T>(what, of, *team, moved);
  return {};
}

}  // namespace

std::optional<result> measure(job const& what, options const& of, process_team* team) {
  if (of.simulate) return simulate(what, of);
  if (of.backend == backend::mpi) return measure_processes(what, of, *team);
  if (of.backend == backend::cuda) return measure_cuda(what, of);
  if (of.backend == backend::nccl) return measure_nccl(what, of);
  return fssdp::with_element(
      of.dtype, [&]<class T>(std::type_identity<T>) { return measure_as<T>(what, of, team); });
}

}  // namespace perf
