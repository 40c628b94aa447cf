// SPDX-License-Identifier: Apache-2.0
/// What one rank does, over any back end: compiled once for all of them.
#pragma once

#include <filesystem>
#include <functional>
#include <memory_resource>
#include <optional>
#include <span>

#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/plan/planner.hpp"
#include "fssdp/trace/trace_output.hpp"
#include "fssdp/trace/trace_recorder.hpp"
#include "options.hpp"
#include "report.hpp"
#include "text.hpp"

namespace moe_gpt {

/// What a rank is told.
struct rank_job {
  options const& chosen;
  corpus const& text;
  fssdp::trace_output trace = {};
  std::function<void(step_record const&)> observe;  ///< is called after every step, on rank 0
  /// Where experts lie.
  std::pmr::memory_resource* memory = std::pmr::new_delete_resource();
  /// Makes the plans; ranks of one process may share a cache.
  fssdp::planner planner = fssdp::make_requested_plan;
  /// What plans are shared over, if that is asked for: one more communicator of the same ranks.
  std::optional<fssdp::communicator_ref> plans = {};
  /// The counterparts of this rank in other groups, if there are any.
  std::optional<fssdp::communicator_ref> between = {};
  /// The same counterparts, for exchanges that may go on while the ranks count.
  std::optional<fssdp::communicator_ref> exchanges = {};
};

/// Trains on one rank.
/// @param tokens what tokens and dense parameters go through
/// @param experts another communicator of the same ranks: experts move through it while the ranks
///        compute, if that is asked for
[[nodiscard]] run_record train_on(fssdp::communicator_ref tokens, fssdp::communicator_ref experts,
                                  rank_job const& job);

/// @throws std::runtime_error if the file cannot be written
void write_trace(std::filesystem::path const& file, std::span<fssdp::trace_recorder const> traces);

}  // namespace moe_gpt
