// SPDX-License-Identifier: Apache-2.0
/// How a placement becomes a plan, for those who make plans again and again.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "fssdp/layout/table_layout.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/topology/topology.hpp"

namespace fssdp {

/// All that a plan depends on. A view: what it refers to outlives it.
struct plan_request {
  table_layout const& layout;
  placement const& where;
  fssdp::topology const& topology;
  std::size_t chunk_bytes = 0;                    ///< of the largest chunk, as it travels
  std::optional<schedule_options> schedule = {};  ///< without: a plan of whole chunks
};

/// Makes plans: a pure function, so that all ranks get the same; several threads may call it at
/// once. make_requested_plan is one, a plan_cache another (`std::ref(cache)`).
using planner = std::function<transfer_plan(plan_request const&)>;

/// make_plan, and schedule if that is asked for.
/// @throws argument_error as these
[[nodiscard]] inline transfer_plan make_requested_plan(plan_request const& of) {
  auto plan = make_plan(of.layout, of.where, of.topology);
  return of.schedule.has_value() ? schedule(plan, of.chunk_bytes, *of.schedule) : plan;
}

}  // namespace fssdp
