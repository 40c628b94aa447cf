// SPDX-License-Identifier: Apache-2.0
/// One line of the table from the port model: nothing is moved.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cases/cases.hpp"
#include "fssdp/plan/lower_bound.hpp"
#include "fssdp/plan/simulate.hpp"
#include "fssdp/plan/verify.hpp"
#include "measure.hpp"
#include "measured_plan.hpp"
#include "port_model.hpp"
#include "result.hpp"
#include "task.hpp"

namespace perf {

[[nodiscard]] inline task task_of(job const& what, options const& of) {
  return make_task(what.of_case, cluster_of(of), expert_count(of), of.seed, what.bytes,
                   size_of(of.dtype));
}

/// What every line says of its job, before anything is measured.
[[nodiscard]] inline result describe(job const& what, options const& of, task const& moved) {
  return {.backend = of.backend,
          .collective = what.collective,
          .of_case = what.of_case,
          .seed = of.seed,
          .ranks = of.ranks,
          .nodes = of.nodes,
          .bytes = what.bytes,
          .chunks = moved.placed.layout.experts(),
          .replicas = cases::replicas(moved.placed),
          .dtype = of.dtype};
}

/// Bytes that ranks send, all together and the busiest of them, in or out.
inline void count_bytes(measured_plan const& by, result& found) {
  auto const& plan = by.plan;
  auto const ranks = static_cast<std::size_t>(plan.ranks());
  auto out = std::vector<std::uint64_t>(ranks);  // rows of pieces
  auto in = out;
  auto all = std::uint64_t{0};
  for (auto const& t : plan.transfers()) {
    auto const rows = plan.rows(t.chunk.expert);
    out[t.source.index()] += rows;
    in[t.destination.index()] += rows;
    all += rows;
  }
  auto const row = by.chunk_bytes / std::max<std::size_t>(1, plan.most_rows());
  auto const pieces = static_cast<std::uint64_t>(plan.pieces());
  found.wire = all * row / pieces;
  found.busiest_port = std::max(std::ranges::max(out), std::ranges::max(in)) * row / pieces;
}

/// What the ports allow at best.
inline void bound_by_ports(measured_plan const& by, options const& of, result& found) {
  auto const bound =
      fssdp::lower_bound(by.plan, by.chunk_bytes, least_piece(of, by.of_array.has_value()));
  found.bound_seconds = bound.seconds;
  found.tight_bound_seconds = bound.tight_seconds;
  found.bound = bound.resource;
}

/// @throws std::invalid_argument if the baseline cannot be simulated
[[nodiscard]] inline result simulate(job const& what, options const& of) {
  auto const moved = task_of(what, of);
  auto found = describe(what, of, moved);
  auto const by = plan_of(of, moved);
  fssdp::verify(by.plan);
  found.seconds = fssdp::simulate(by.plan, by.chunk_bytes).seconds;
  bound_by_ports(by, of, found);
  found.plan_seconds = seconds_to_plan(of, moved);
  found.baseline = of.baseline;
  found.baseline_seconds = simulated_baseline(of, moved);
  count_bytes(by, found);
  return found;
}

}  // namespace perf
