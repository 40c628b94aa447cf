// SPDX-License-Identifier: Apache-2.0
/// Where the program meets the port model: the topology, the plan for it, the world of ranks.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cases/cases.hpp"
#include "cases/direct_plan.hpp"
#include "contestant.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/plan/simulate.hpp"
#include "fssdp/topology/topology.hpp"
#include "options.hpp"

namespace perf {

/// The topology that is simulated; with --rate, the one that threads are slowed down to: both kinds
/// of ports by the same factor.
[[nodiscard]] inline fssdp::topology cluster_of(options const& of) {
  auto const factor = of.rate > 0 ? of.rate / of.link_bandwidth : 1.0;
  return fssdp::topology{{.nodes = of.nodes,
                          .ranks = of.ranks,
                          .ports = {.inside_bytes_per_second = of.link_bandwidth * factor,
                                    .between_bytes_per_second = of.nic_bandwidth * factor},
                          .network = of.nic_per == nic_per::node
                                         ? fssdp::network_interface::per_node
                                         : fssdp::network_interface::per_rank,
                          .cost = {.inside_latency_seconds = of.link_latency,
                                   .between_latency_seconds = of.nic_latency}}};
}

/// Pieces may be smaller where hosts are joined by sockets: they are slow.
[[nodiscard]] constexpr std::size_t least_piece(options const& of) {
  return of.backend == backend::mpi ? 64U << 10U : fssdp::schedule_options{}.least_bytes;
}

/// The plan that is measured. Threads read each other's memory: on one node without ports of their
/// own, whole chunks straight from their owners are best, and likewise processes, and streams that
/// share devices. Where ports count, pieces: over NCCL a rank has those of a device to itself.
[[nodiscard]] inline fssdp::transfer_plan plan_of(options const& how, cases::scene const& of,
                                                  std::size_t chunk_bytes) {
  auto plan = fssdp::make_plan(of.layout, of.where, of.topology);
  if (how.simulate || how.rate > 0 || how.backend == backend::nccl)
    return fssdp::schedule(plan, chunk_bytes);
  if (how.backend == backend::mpi && how.nodes > 1)
    return fssdp::schedule(plan, chunk_bytes, {.least_bytes = least_piece(how)});
  return plan;
}

/// How long one rank takes to make it: the median of some calls.
[[nodiscard]] inline double seconds_to_plan(options const& how, cases::scene const& of,
                                            std::size_t chunk_bytes) {
  using clock = std::chrono::steady_clock;
  auto seconds = std::vector<double>{};
  for (int call = 0; call < 5; ++call) {
    auto const begin = clock::now();
    auto const plan = plan_of(how, of, chunk_bytes);
    seconds.push_back(std::chrono::duration<double>{clock::now() - begin}.count());
  }
  return median(std::move(seconds));
}

/// Owners send to the first holder on every node, and that one to the others there.
[[nodiscard]] inline fssdp::transfer_plan star_plan(cases::scene const& of) {
  auto transfers = std::vector<fssdp::transfer>{};
  for (auto const chunk : fssdp::all_chunks(of.layout)) {
    auto const owner = of.layout.owner(chunk);
    auto leader = std::vector<fssdp::rank_id>(static_cast<std::size_t>(of.topology.nodes()),
                                              fssdp::rank_id{-1});
    leader[of.topology.node(owner).index()] = owner;
    for (auto const rank : of.where.holders(chunk.expert)) {
      if (rank == owner) continue;
      auto& first = leader[of.topology.node(rank).index()];
      auto const leads = first.value() < 0;
      if (leads) first = rank;
      transfers.push_back({first == owner || leads ? 0 : 1, chunk, leads ? owner : first, rank});
    }
  }
  return {of.layout, of.where, std::move(transfers), of.topology};
}

/// One expert after the other, each by its own best schedule.
[[nodiscard]] inline double seconds_one_by_one(cases::scene const& of, std::size_t chunk_bytes) {
  auto seconds = 0.0;
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(of.layout.experts())) {
    auto alone = fssdp::placement{of.layout};
    for (auto const rank : of.where.holders(expert)) alone.add(expert, rank);
    auto const plan = fssdp::make_plan(of.layout, alone, of.topology);
    if (!plan.transfers().empty())
      seconds += fssdp::simulate(fssdp::schedule(plan, chunk_bytes), chunk_bytes).seconds;
  }
  return seconds;
}

/// What a baseline takes on the ports of the model; none if there is none.
/// @throws std::invalid_argument if it is one of another library
[[nodiscard]] inline std::optional<double> simulated_baseline(options const& how,
                                                              cases::scene const& of,
                                                              std::size_t chunk_bytes) {
  auto const time = [&](fssdp::transfer_plan const& plan) {
    return fssdp::simulate(plan, chunk_bytes).seconds;
  };
  switch (how.baseline) {
    case baseline::none:
      return {};
    case baseline::direct:
      return time(direct_plan(of));
    case baseline::chain:
      return time(fssdp::make_plan(of.layout, of.where, of.topology));
    case baseline::star:
      return time(star_plan(of));
    case baseline::broadcast:
      return seconds_one_by_one(of, chunk_bytes);
    case baseline::dense:
      return time(plan_of(how, everywhere(of), chunk_bytes));
    default:
      throw std::invalid_argument{"--baseline " + std::string{name_of(how.baseline)} +
                                  ": expected one that can be simulated"};
  }
}

/// The ranks as threads; as slow as --rate says, if it does.
[[nodiscard]] inline fssdp::thread_world world_of(options const& of) {
  if (of.rate == 0) return fssdp::thread_world{of.ranks};
  return fssdp::thread_world{{.ranks = of.ranks, .ports = cluster_of(of)}};
}

}  // namespace perf
