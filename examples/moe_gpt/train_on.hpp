// SPDX-License-Identifier: Apache-2.0
/// What one rank does, over any back end: compiled once for all of them.
#pragma once

#include <filesystem>
#include <functional>
#include <memory_resource>
#include <optional>
#include <span>

#include "any_survivable.hpp"
#include "expert_layouts.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/plan/planner.hpp"
#include "fssdp/topology/topology.hpp"
#include "fssdp/trace/trace_output.hpp"
#include "fssdp/trace/trace_recorder.hpp"
#include "options.hpp"
#include "report.hpp"
#include "run_phase.hpp"
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
  /// The ranks on their nodes; without ranks: as the options say.
  fssdp::topology topo = {};
  /// Who owns the experts at first, unless a checkpoint says so; none: as the options say.
  std::optional<expert_layouts> owners = {};
  /// Is called in each step, counted from 1.
  std::function<void(int step, run_phase)> at = {};
  /// Takes this rank out of the run, for a test: as a thread by rank_left, which it throws.
  std::function<void()> stop = {};
};

/// Trains on one rank.
/// @param tokens what tokens and dense parameters go through
/// @param experts another communicator of the same ranks: experts move through it while the ranks
///        compute, if that is asked for
[[nodiscard]] run_record train_on(fssdp::communicator_ref tokens, fssdp::communicator_ref experts,
                                  rank_job const& job);

/// Trains on one rank; when others are lost, it goes on with those that are left.
/// @param comm all ranks
/// @return what there is to report; where rank 0 was lost, on the first rank that is left
/// @throws fssdp::state_lost, which names the last checkpoint, if a rank and its partner are lost;
///         std::runtime_error, which does so, too, where the back end cannot go on
[[nodiscard]] run_record train_mirrored(any_survivable& comm, rank_job const& job);

/// @throws std::runtime_error if the file cannot be written
void write_trace(std::filesystem::path const& file, std::span<fssdp::trace_recorder const> traces);

}  // namespace moe_gpt
