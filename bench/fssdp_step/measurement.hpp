// SPDX-License-Identifier: Apache-2.0
/// The results of a policy's iterations. Times are those of the real cluster.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "fssdp_sim/groups.hpp"
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
  /// For which devices waited for other groups: their mean, or, if parameters are exchanged, of the one
  /// that waited longest, as all the others then wait for that.
  double between_seconds = 0;
  double busy_share = 0;                   ///< of the host's cores, by this program
  std::vector<double> between_bytes = {};  ///< [devices]: to other groups
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
  double predicted_planning_seconds = 0;  ///< part of it: what was not made ahead
  double max_over_mean = 1;  ///< tokens of the fullest device, mean over layers and iterations
  double bytes = 0;          ///< sent by all devices in an iteration, tokens and experts
  double replica_bytes = 0;  ///< of the device that has most
  sim::group_setting between = {};
  double predicted_between_seconds = 0;  ///< part of predicted_seconds
  double predicted_between_bytes = 0;

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
  /// If parameters are exchanged every few iterations, with the share of one iteration.
  [[nodiscard]] double seconds() const {
    if (between.rhythm.sync_every <= 1) return median(&iteration_record::seconds);
    return sim::percentile(without_waits(), 0.5) + between_seconds();
  }
  [[nodiscard]] double measured_over_predicted() const {
    if (between.rhythm.sync_every <= 1)
      return sim::mean(all(&iteration_record::seconds)) / predicted_seconds;
    return (sim::mean(without_waits()) + between_seconds()) / predicted_seconds;
  }
  /// For which devices wait for other groups, in one iteration or as its share.
  [[nodiscard]] double between_seconds() const {
    if (between.rhythm.sync_every <= 1) return median(&iteration_record::between_seconds);
    auto sum = 0.0;
    for (auto const& one : whole_rounds()) sum += one.between_seconds;
    return sum / static_cast<double>(whole_rounds().size());
  }
  /// What the device sends there that sends most, in one iteration or as its share.
  [[nodiscard]] double between_bytes() const {
    auto sums = std::vector<double>{};
    for (auto const& one : whole_rounds()) {
      sums.resize(std::max(sums.size(), one.between_bytes.size()));
      for (std::size_t rank = 0; rank < one.between_bytes.size(); ++rank)
        sums[rank] += one.between_bytes[rank];
    }
    return sums.empty() ? 0 : std::ranges::max(sums) / static_cast<double>(whole_rounds().size());
  }
  /// Of the time in which experts move; 0 if hardly any do.
  [[nodiscard]] double exposed_share() const {
    auto const moving = median(&iteration_record::moving_seconds);
    if (moving < 1e-3 * seconds()) return 0;
    return std::min(1.0, median(&iteration_record::exposed_seconds) / moving);
  }
  [[nodiscard]] double busy_share() const { return sim::mean(all(&iteration_record::busy_share)); }

 private:
  [[nodiscard]] std::span<iteration_record const> whole_rounds() const {
    auto const every = static_cast<std::size_t>(std::max(1, between.rhythm.sync_every));
    return std::span{iterations}.first(iterations.size() / every * every);
  }
  [[nodiscard]] std::vector<double> without_waits() const {
    auto values = std::vector<double>{};
    for (auto const& one : iterations) values.push_back(one.seconds - one.between_seconds);
    return values;
  }
};

}  // namespace step
