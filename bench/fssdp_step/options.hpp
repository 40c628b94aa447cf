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

enum class backend { thread, mpi, cuda, nccl };

/// Whether devices compute, instead of being waited for.
[[nodiscard]] constexpr bool computes(backend of) {
  return of == backend::cuda || of == backend::nccl;
}

struct options {
  step::backend backend = step::backend::thread;
  double wire = 0;  ///< real bytes per second between hosts, where links are real; 0: not known
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
