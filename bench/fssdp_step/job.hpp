// SPDX-License-Identifier: Apache-2.0
/// What the devices have to do: which policy, which loads, how to emulate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "emulation.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/plan/transfer_plan.hpp"
#include "fssdp_sim/groups.hpp"
#include "fssdp_sim/policy.hpp"
#include "fssdp_sim/simulate.hpp"
#include "iteration_model.hpp"
#include "policies.hpp"
#include "shared_answers.hpp"

namespace step {

/// Placements by loads, owners and the placement before; plans by placements and owners: made once
/// for all devices of a process.
struct shared_work {
  using question =
      std::tuple<fssdp::expert_loads, fssdp::table_layout, std::optional<fssdp::placement>>;
  shared_answers<question, fssdp::placement> placements{256};
  shared_answers<std::pair<fssdp::placement, fssdp::table_layout>, fssdp::transfer_plan> plans{256};
};

/// How a layer went in one iteration: what its time can be predicted from.
struct layer_record {
  std::size_t sample = 0;
  std::size_t layer = 0;
  sim::layer_answer answer;       ///< what was done
  fssdp::transfer_plan gathered;  ///< before the router counted
  fssdp::transfer_plan reduced;
  planning_costs planning = {};  ///< what was not made ahead
};

/// Groups of devices, each of which is a cluster of its own.
struct between_job {
  sim::group_setting of;
  /// What payloads are divided by, and the rate of the wires with them: other than experts, as a
  /// smaller matrix need not have a payload that is so much smaller.
  double scale = 1;
};

struct job {
  sim::scenario const& of;
  policy const& which;
  emulation emulates;
  int prefetch_distance = 1;
  int interval = 10;        ///< of policies that look at loads every few iterations
  int reshard_every = 100;  ///< iterations
  bool plans_ahead = true;
  std::optional<between_job> between = {};                ///< none: one group
  std::size_t effort = fssdp::schedule_options{}.effort;  ///< of schedules
  bool links_are_real = false;  ///< else they are emulated, and counts travel past them
  bool ranks_are_processes = false;
  std::function<void()> iteration_over = [] {};  ///< is called on rank 0
};

}  // namespace step
