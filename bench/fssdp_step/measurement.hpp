// SPDX-License-Identifier: Apache-2.0
/// What the iterations of a policy came to. Times are those of the real cluster.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "fssdp_sim/result.hpp"

namespace step {

/// One iteration of all layers, on all devices.
struct iteration_record {
  double seconds = 0;
  double exposed_seconds = 0;   ///< for which devices waited for experts; their mean
  double moving_seconds = 0;    ///< in gathers and reductions; their mean
  double token_seconds = 0;     ///< in dispatch and combine, waits included; their mean
  double solving_seconds = 0;   ///< placements and routing, before layers could go on
  double planning_seconds = 0;  ///< transfers, on the stream of the experts
  double busy_share = 0;        ///< of the host's cores, by this program
};

struct measurement {
  std::string policy;
  std::string model = {};
  std::string cluster = {};
  int devices = 0;
  int slots = 0;
  int layers = 0;  ///< of the model
  std::vector<iteration_record> iterations = {};
  double predicted_seconds = 0;
  double max_over_mean = 1;  ///< tokens of the fullest device, mean over layers and iterations
  double bytes = 0;          ///< sent by all devices in an iteration, tokens and experts
  double replica_bytes = 0;  ///< of the device that has most

  [[nodiscard]] std::vector<double> all(double iteration_record::*part) const {
    auto values = std::vector<double>{};
    for (auto const& one : iterations) values.push_back(one.*part);
    return values;
  }
  [[nodiscard]] double median(double iteration_record::*part) const {
    return sim::percentile(all(part), 0.5);
  }
  [[nodiscard]] double p95() const {
    return sim::percentile(all(&iteration_record::seconds), 0.95);
  }
  [[nodiscard]] double seconds() const { return median(&iteration_record::seconds); }
  [[nodiscard]] double measured_over_predicted() const {
    return sim::mean(all(&iteration_record::seconds)) / predicted_seconds;
  }
  /// Of the time in which experts move; 0 if hardly any do.
  [[nodiscard]] double exposed_share() const {
    auto const moving = median(&iteration_record::moving_seconds);
    if (moving < 1e-3 * seconds()) return 0;
    return std::min(1.0, median(&iteration_record::exposed_seconds) / moving);
  }
  [[nodiscard]] double busy_share() const { return sim::mean(all(&iteration_record::busy_share)); }
};

}  // namespace step
