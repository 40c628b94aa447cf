// SPDX-License-Identifier: Apache-2.0
/// Planners: functions from a placement to a plan, for callers that plan repeatedly.
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

/// The input of a plan. A view: what it refers to must outlive it.
struct plan_request {
  table_layout const& layout;
  placement const& where;
  fssdp::topology const& topology;
  std::size_t chunk_bytes = 0;                    ///< of the largest chunk, as it travels
  std::optional<schedule_options> schedule = {};  ///< empty: a plan of whole chunks
};

/// A pure function that makes plans, so that all ranks get the same ones; several threads may call
/// it at the same time. Examples: make_requested_plan, and a plan_cache (`std::ref(cache)`).
using planner = std::function<transfer_plan(plan_request const&)>;

/// make_plan, followed by schedule if the request has schedule options.
/// @throws argument_error as make_plan and schedule
[[nodiscard]] inline transfer_plan make_requested_plan(plan_request const& of) {
  auto plan = make_plan(of.layout, of.where, of.topology);
  return of.schedule.has_value() ? schedule(plan, of.chunk_bytes, *of.schedule) : plan;
}

}  // namespace fssdp
