// SPDX-License-Identifier: Apache-2.0
/// One line of the table from the port model: nothing is moved.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cases.hpp"
#include "fssdp/plan/traffic.hpp"
#include "measure.hpp"
#include "port_model.hpp"
#include "result.hpp"

namespace perf {

/// What every line says of its job, before anything is measured.
[[nodiscard]] inline result describe(job const& what, options const& of, scene const& placed) {
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

/// @throws std::invalid_argument as long as there is no port model
[[nodiscard]] inline result simulate(job const& what, options const& of) {
  auto const placed = make_scene(what.of_case, cluster_of(of), expert_count(of), of.seed);
  auto found = describe(what, of, placed);
  auto const plan = plan_of(placed, what.bytes);
  auto const times = simulated(plan, what.bytes);
  auto const moved = fssdp::traffic(plan, placed.cluster);
  auto const busiest =
      std::max(std::ranges::max(moved.out_of_rank), std::ranges::max(moved.into_rank));
  found.seconds = times.seconds;
  found.bound_seconds = times.bound_seconds;
  found.tight_bound_seconds = times.tight_bound_seconds;
  found.bound = times.bound;
  found.wire = static_cast<std::uint64_t>(plan.transfers().size()) * what.bytes;
  found.busiest_port = static_cast<std::uint64_t>(busiest) * what.bytes;
  found.plan_seconds = seconds_to_plan(placed, what.bytes);
  return found;
}

}  // namespace perf
