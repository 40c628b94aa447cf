// SPDX-License-Identifier: Apache-2.0
/// One line of the table from the port model: nothing is moved.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cases/cases.hpp"
#include "fssdp/plan/lower_bound.hpp"
#include "fssdp/plan/simulate.hpp"
#include "fssdp/plan/traffic.hpp"
#include "fssdp/plan/verify.hpp"
#include "measure.hpp"
#include "port_model.hpp"
#include "result.hpp"

namespace perf {

/// What every line says of its job, before anything is measured.
[[nodiscard]] inline result describe(job const& what, options const& of,
                                     cases::scene const& placed) {
  return {.backend = of.backend,
          .collective = what.collective,
          .of_case = what.of_case,
          .seed = of.seed,
          .ranks = of.ranks,
          .nodes = of.nodes,
          .bytes = what.bytes,
          .chunks = placed.layout.experts(),
          .replicas = replicas(placed),
          .dtype = of.dtype};
}

/// Bytes that ranks send, all together and the busiest of them, in or out.
inline void count_bytes(fssdp::transfer_plan const& plan, std::size_t chunk_bytes, result& found) {
  auto const moved = fssdp::traffic(plan, plan.topology());
  auto const busiest =
      std::max(std::ranges::max(moved.out_of_rank), std::ranges::max(moved.into_rank));
  auto const pieces = static_cast<std::uint64_t>(plan.pieces());
  found.wire = plan.transfers().size() * chunk_bytes / pieces;
  found.busiest_port = static_cast<std::uint64_t>(busiest) * chunk_bytes / pieces;
}

/// What the ports allow at best.
inline void bound_by_ports(fssdp::transfer_plan const& plan, options const& of,
                           std::size_t chunk_bytes, result& found) {
  auto const bound = fssdp::lower_bound(plan, chunk_bytes, least_piece(of));
  found.bound_seconds = bound.seconds;
  found.tight_bound_seconds = bound.tight_seconds;
  found.bound = bound.resource;
}

/// @throws std::invalid_argument if the baseline cannot be simulated
[[nodiscard]] inline result simulate(job const& what, options const& of) {
  auto const placed = make_scene(what.of_case, cluster_of(of), expert_count(of), of.seed);
  auto found = describe(what, of, placed);
  auto const plan = plan_of(of, placed, what.bytes);
  fssdp::verify(plan);
  found.seconds = fssdp::simulate(plan, what.bytes).seconds;
  bound_by_ports(plan, of, what.bytes, found);
  found.plan_seconds = seconds_to_plan(of, placed, what.bytes);
  found.baseline = of.baseline;
  found.baseline_seconds = simulated_baseline(of, placed, what.bytes);
  count_bytes(plan, what.bytes, found);
  return found;
}

}  // namespace perf
