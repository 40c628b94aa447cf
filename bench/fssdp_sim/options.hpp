// SPDX-License-Identifier: Apache-2.0
/// What is simulated, and in which form it is shown.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cluster.hpp"
#include "groups.hpp"
#include "model.hpp"
#include "policies/policies.hpp"
#include "policy.hpp"

namespace sim {

enum class output { table, json, csv };

struct options {
  std::filesystem::path trace = {};      ///< empty: a synthetic process
  std::vector<std::int64_t> iters = {};  ///< empty: all
  std::optional<std::int64_t> stale = {};

  std::vector<cluster_kind const*> clusters = {&cluster_kinds.front()};
  std::vector<int> devices = {};  ///< empty: as many as the cluster usually has
  std::vector<model_shape const*> models = {&sim::models.front()};
  std::vector<policy const*> policies = {};  ///< never empty once read
  int slots = 4;
  std::optional<int> overlap = {};  ///< none: what the window hides
  objective goal = objective::time;
  group_options between = {};

  std::uint64_t seed = 1;
  int iterations = 20;
  int tokens = 8192;  ///< per device
  int layers = 0;     ///< 0: as the model has
  int experts = 0;    ///< 0: as the model has
  double zipf = 1.1;
  double drift = 0.01;
  double jumps = 0.002;
  double noise = 0.02;

  output form = output::table;
  bool advise = false;
  bool timed = false;  ///< solving and planning are measured, too
  std::filesystem::path dump = {};
  std::filesystem::path write_trace = {};
};

}  // namespace sim
