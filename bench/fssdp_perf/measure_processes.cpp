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
#include "cases/cases.hpp"
#include "cases/direct_plan.hpp"
#include "port_model.hpp"
#include "rank_memory.hpp"
#include "simulate.hpp"
#include "with_fssdp.hpp"

namespace perf {
namespace {

/// What a baseline needs besides.
template <class T>
struct other_placement {
  fssdp::transfer_plan plan;
  rank_memory<T> memory;
  other_placement(fssdp::transfer_plan of, collective which, fssdp::rank_id rank,
                  std::size_t elements, std::pmr::memory_resource* resource)
      : plan{std::move(of)}, memory{which, plan, rank, elements, resource} {}
};

template <class T>
[[nodiscard]] std::optional<result> measure_as(job const& what, options const& of,
                                               process_team& team) {
  auto const placed = make_scene(what.of_case, cluster_of(of), expert_count(of), of.seed);
  auto const direct = direct_plan(placed);
  auto const plan = plan_of(of, placed, what.bytes);
  auto const elements = what.bytes / sizeof(T);
  auto* const resource = of.in_place ? &team.memory() : std::pmr::new_delete_resource();
  auto mine = rank_memory<T>{what.collective, direct, team.rank(), elements, resource};
  auto dense = std::optional<other_placement<T>>{};
  auto contestants = std::vector{checked(mpi_fssdp(team, "fssdp", plan, mine), mine)};
  switch (of.baseline) {
    case baseline::none:
      break;
    case baseline::direct:
      contestants.push_back(checked(mpi_fssdp(team, "direct", direct, mine), mine));
      break;
    case baseline::dense:
      dense.emplace(plan_of(of, everywhere(placed), what.bytes), what.collective, team.rank(),
                    elements, resource);
      contestants.push_back(
          checked(mpi_fssdp(team, "dense", dense->plan, dense->memory), dense->memory));
      break;
    case baseline::broadcast:
    case baseline::mpi_broadcast:
    case baseline::neighbor:
      contestants.push_back(checked(mpi_contestant(team, of.baseline, mine), mine));
      break;
    default:
      throw std::invalid_argument{"--baseline " + std::string{name_of(of.baseline)} +
                                  ": expected none, direct, broadcast, neighbor or dense with "
                                  "--backend mpi"};
  }
  auto const outcomes = alternate(contestants, of, team);
  if (team.rank() != fssdp::rank_id{0}) return {};
  auto found = describe(what, of, placed);
  found.baseline = of.baseline;
  found.plan_seconds = seconds_to_plan(of, placed, what.bytes);
  count_bytes(plan, what.bytes, found);
  bound_by_ports(plan, of, what.bytes, found);
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
