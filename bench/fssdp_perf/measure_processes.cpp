// SPDX-License-Identifier: Apache-2.0
// Ranks that are processes: all of them go through the same contestants in the same turns.
#include "measure_processes.hpp"

#include <algorithm>
#include <cstddef>
#include <memory_resource>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "alternate.hpp"
#include "measured_plan.hpp"
#include "port_model.hpp"
#include "rank_memory.hpp"
#include "simulate.hpp"
#include "task.hpp"
#include "with_fssdp.hpp"

namespace perf {
namespace {

/// What a baseline needs besides.
template <class T>
struct other_placement {
  measured_plan plan;
  rank_memory<T> memory;
  other_placement(measured_plan of, collective which, fssdp::rank_id rank, std::size_t elements,
                  std::pmr::memory_resource* resource)
      : plan{std::move(of)}, memory{which, plan.plan, rank, elements, resource} {}
};

template <class T>
[[nodiscard]] std::optional<result> measure_as(job const& what, options const& of,
                                               process_team& team) {
  auto const moved = task_of(what, of);
  auto const direct = measured_plan{moved.direct(), moved.most_bytes()};
  auto const plan = plan_of(of, moved);
  auto* const resource = of.in_place ? &team.memory() : std::pmr::new_delete_resource();
  auto mine = rank_memory<T>{what.collective, direct.plan, team.rank(), moved.elements, resource};
  auto dense = std::optional<other_placement<T>>{};
  auto contestants = std::vector{checked(mpi_fssdp(team, "fssdp", plan, mine), mine)};
  switch (of.baseline) {
    case baseline::none:
      break;
    case baseline::direct:
      contestants.push_back(checked(mpi_fssdp(team, "direct", direct, mine), mine));
      break;
    case baseline::dense:
      dense.emplace(plan_of(of, everywhere(moved)), what.collective, team.rank(), moved.elements,
                    resource);
      contestants.push_back(
          checked(mpi_fssdp(team, "dense", dense->plan, dense->memory), dense->memory));
      break;
    case baseline::broadcast:
    case baseline::mpi_broadcast:
    case baseline::neighbor:
    case baseline::mpi_v:
      contestants.push_back(checked(mpi_contestant(team, of.baseline, mine), mine));
      break;
    default:
      throw std::invalid_argument{"--baseline " + std::string{name_of(of.baseline)} +
                                  ": expected none, direct, broadcast, neighbor, dense or mpi-v "
                                  "with --backend mpi"};
  }
  auto const outcomes = alternate(contestants, of, team);
  if (team.rank() != fssdp::rank_id{0}) return {};
  auto found = describe(what, of, moved);
  found.baseline = of.baseline;
  found.plan_seconds = seconds_to_plan(of, moved);
  count_bytes(plan, found);
  bound_by_ports(plan, of, found);
  found.seconds = median(outcomes.front().seconds);
  if (of.check) found.wrong = outcomes.front().wrong;
  if (outcomes.size() == 1) return found;
  found.baseline_wrong = outcomes.back().wrong;
  found.baseline_seconds = median(outcomes.back().seconds);
  found.baseline_setup_seconds = contestants.back().setup_seconds;
  return found;
}

}  // namespace

options on_this_machine(options of, process_team& team) {
  auto const links = team.measure_links();
  if (of.nodes != 1 && of.nodes != team.nodes())
    throw std::invalid_argument{"--nodes " + std::to_string(of.nodes) + ": the processes run on " +
                                std::to_string(team.nodes())};
  of.nodes = team.nodes();
  of.nic_per = nic_per::node;
  of.link_bandwidth = links.inside_bytes_per_second;
  if (of.in_place) of.link_bandwidth = std::max(of.link_bandwidth, links.copied_bytes_per_second);
  of.link_latency = links.inside_latency_seconds;
  if (of.nodes > 1) {
    of.nic_bandwidth = links.between_bytes_per_second;
    of.nic_latency = links.between_latency_seconds;
  }
  return of;
}

std::optional<result> measure_processes(job const& what, options const& of, process_team& team) {
  return fssdp::with_element(
      of.dtype, [&]<class T>(std::type_identity<T>) { return measure_as<T>(what, of, team); });
}

}  // namespace perf
