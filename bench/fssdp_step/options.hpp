// SPDX-License-Identifier: Apache-2.0
/// What is measured, and in which form it is shown.
#pragma once

#include <chrono>
#include <filesystem>
#include <vector>

#include "emulation.hpp"
#include "fssdp_sim/options.hpp"
#include "policies.hpp"

namespace step {

struct options {
  sim::options scene = {.iterations = 6};
  std::vector<policy const*> policies = {};  ///< never empty once read
  emulation emulates = {.scale = 256, .slow = 4};
  int prefetch_distance = 1;
  bool plans_ahead = true;
  int interval = 10;
  int reshard_every = 100;
  int deadline_seconds = 300;
  sim::output form = sim::output::table;
  std::filesystem::path timeline = {};
};

}  // namespace step
