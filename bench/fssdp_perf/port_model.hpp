// SPDX-License-Identifier: Apache-2.0
/// The port model of this program: the topology, the plan for it, the world of ranks.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cases/cases.hpp"
#include "contestant.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/plan/simulate.hpp"
#include "fssdp/plan/uneven_plan.hpp"
#include "fssdp/topology/topology.hpp"
#include "measured_plan.hpp"
#include "options.hpp"
#include "task.hpp"

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

/// Where hosts are joined by sockets, smaller pieces pay: links are slow. Blocks of an array are cut
/// to this length before they are scheduled, so that a short array still has several parts. A part
/// takes the time of a message there, about 150 us, or more.
[[nodiscard]] constexpr std::size_t least_piece(options const& of, bool is_array) {
  if (of.backend != backend::mpi) return fssdp::schedule_options{}.least_bytes;
  if (!is_array) return 64U << 10U;
  return static_cast<std::size_t>(std::clamp(150e-6 * of.nic_bandwidth, 16'384.0, 262'144.0));
}

/// How an expert is cut; 0: as the scheduler finds best. Sockets share a link among all messages in
/// flight, so that what is to be passed on arrives later than in a simulation, where one message
/// follows the other. Short pieces make up for that.
[[nodiscard]] inline std::size_t piece_bytes(options const& how, task const& of) {
  if (how.piece_bytes != 0) return how.piece_bytes;
  if (how.backend != backend::mpi || of.is_array()) return 0;
  return std::max(of.most_bytes() / 64, least_piece(how, false));
}

/// The plan that is measured. Threads read each other's memory: on one node without ports of their
/// own, whole chunks or blocks straight from their owners are best, and likewise processes, and
/// streams that share devices. Where ports count, pieces: over NCCL a rank has those of a device to
/// itself.
[[nodiscard]] inline measured_plan plan_of(options const& how, task const& of) {
  auto const ports_count = how.simulate || how.rate > 0 || how.backend == backend::nccl ||
                           (how.backend == backend::mpi && how.nodes > 1);
  auto const with = fssdp::schedule_options{.piece_bytes = piece_bytes(how, of),
                                            .least_bytes = least_piece(how, of.is_array())};
  if (of.is_array()) {
    auto const blocks = fssdp::consecutive_blocks(of.rows);
    auto const& topo = of.placed.topology;
    if (ports_count) return measured_plan{fssdp::uneven_plan{blocks, topo, of.element_bytes, with}};
    return measured_plan{fssdp::uneven_plan::direct(blocks, topo, of.element_bytes)};
  }
  auto plan = of.node_aware();
  if (ports_count) plan = fssdp::schedule(plan, of.most_bytes(), with);
  return {std::move(plan), of.most_bytes()};
}

/// How long one rank takes to make it: the median of some calls.
[[nodiscard]] inline double seconds_to_plan(options const& how, task const& of) {
  using clock = std::chrono::steady_clock;
  auto seconds = std::vector<double>{};
  for (int call = 0; call < 5; ++call) {
    auto const begin = clock::now();
    auto const plan = plan_of(how, of);
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
[[nodiscard]] inline double seconds_one_by_one(task const& of) {
  auto seconds = 0.0;
  auto const& [topo, layout, where] = of.placed;
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(layout.experts())) {
    auto alone = fssdp::placement{layout};
    for (auto const rank : where.holders(expert)) alone.add(expert, rank);
    auto const plan = fssdp::make_plan(layout, alone, topo);
    auto const bytes = of.bytes(expert);
    if (!plan.transfers().empty() && bytes > 0)
      seconds += fssdp::simulate(fssdp::schedule(plan, bytes), bytes).seconds;
  }
  return seconds;
}

/// What a baseline takes on the ports of the model; none if there is none.
/// @throws std::invalid_argument if it is one of another library
[[nodiscard]] inline std::optional<double> simulated_baseline(options const& how, task const& of) {
  auto const time = [&](fssdp::transfer_plan const& plan) {
    return fssdp::simulate(plan, of.most_bytes()).seconds;
  };
  switch (how.baseline) {
    case baseline::none:
      return {};
    case baseline::direct:
      return time(of.direct());
    case baseline::chain:
      return time(of.node_aware());
    case baseline::star:
      return time(of.sized(star_plan(of.placed)));
    case baseline::broadcast:
      return seconds_one_by_one(of);
    case baseline::dense:
      return time(plan_of(how, everywhere(of)).plan);
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
