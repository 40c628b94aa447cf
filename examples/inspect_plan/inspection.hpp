// SPDX-License-Identifier: Apache-2.0
/// All that is shown of a plan, in numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "cases/cases.hpp"
#include "cases/direct_plan.hpp"
#include "fssdp/plan/lower_bound.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/plan/simulate.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp/plan/verify.hpp"
#include "options.hpp"

namespace inspect {

struct inspection {
  options asked;
  fssdp::transfer_plan plan;
  fssdp::simulation played;
  fssdp::time_bound bound;

  /// The lower bound over the time of the plan, at most 1; 1 if nothing moves.
  [[nodiscard]] double efficiency() const {
    return played.seconds > 0 ? bound.seconds / played.seconds : 1.0;
  }
  [[nodiscard]] double tight_efficiency() const {
    return played.seconds > 0 ? bound.tight_seconds / played.seconds : 1.0;
  }
  /// Of one piece; pieces of an expert differ by at most one byte.
  [[nodiscard]] std::size_t bytes(int piece) const {
    auto const count = static_cast<std::size_t>(plan.pieces());
    auto const which = static_cast<std::size_t>(piece);
    return asked.bytes * (which + 1) / count - asked.bytes * which / count;
  }
  /// Whether the sender of a transfer does not hold what it sends.
  [[nodiscard]] bool relays(fssdp::transfer const& t) const {
    return !plan.where().holds(t.source, t.chunk.expert);
  }
  /// The position of the transfer that another one waits for; none if its sender owns the chunk.
  [[nodiscard]] std::optional<int> feeder(std::size_t index) const {
    auto const found = plan.feeders()[index];
    return found < 0 ? std::nullopt : std::optional{found};
  }
};

/// @throws fssdp::plan_error if the plan does not deliver what its placement promises
[[nodiscard]] inline inspection inspect_plan(options const& asked) {
  auto const placed =
      cases::make_scene(asked.of_case, cluster_of(asked), expert_count(asked), asked.seed);
  auto plan = asked.plan == plan_kind::direct
                  ? cases::direct_plan(placed)
                  : fssdp::make_plan(placed.layout, placed.where, placed.topology);
  auto const how = schedule_options_of(asked);
  if (asked.plan == plan_kind::scheduled) plan = fssdp::schedule(plan, asked.bytes, how);
  fssdp::verify(plan);
  auto played = fssdp::simulate(plan, asked.bytes);
  auto const least = how.piece_bytes == 0 ? how.least_bytes : how.piece_bytes;
  auto bound = fssdp::lower_bound(plan, asked.bytes, std::min(least, how.least_bytes));
  return {asked, std::move(plan), std::move(played), std::move(bound)};
}

}  // namespace inspect
