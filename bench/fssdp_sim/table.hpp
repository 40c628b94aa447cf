// SPDX-License-Identifier: Apache-2.0
/// Results as a table: a block for each cluster and model.
#pragma once

#include <fmt/format.h>

#include <string>

#include "comparison.hpp"
#include "setting.hpp"
#include "simulate.hpp"

namespace sim {

/// The model, the cluster and the loads.
[[nodiscard]] inline std::string table_title(scenario const& of) {
  auto const& where = *of.where;
  auto const nodes = where.cluster.nodes();
  auto text = fmt::format(
      "# {} on cluster {}: {} devices ({}), {} node{}; {} layers of {} experts, {:.0f} tokens per "
      "device\n",
      where.model->name, where.kind->name, where.cluster.ranks(), where.kind->device, nodes,
      nodes == 1 ? "" : "s", where.layers, where.experts, where.tokens_per_device);
  if (of.layer_ids.size() < static_cast<std::size_t>(where.layers))
    text += fmt::format("# {} of {} layers are simulated, and scaled\n", of.layer_ids.size(),
                        where.layers);
  if (where.experts < where.cluster.ranks())
    text += fmt::format("# more devices than experts: ep, smartmoe and shards leave {} idle\n",
                        where.cluster.ranks() - where.experts);
  return text;
}

/// Where predicted loads come from.
[[nodiscard]] inline std::string origin_of(prediction const& of) {
  if (!of.stale.has_value()) return "predicted by the last 5 samples";
  if (*of.stale == 0) return "known";
  return fmt::format("{} iteration{} old", *of.stale, *of.stale == 1 ? "" : "s");
}

/// What the lines of a block have in common, the columns and their units.
[[nodiscard]] inline std::string table_head(scenario const& of) {
  auto text = table_title(of);
  text += fmt::format(
      "# {} iteration{}, {} slot{} per device, overlap {}; loads {}; judged by {}; baselines are "
      "idealized (--help)\n",
      of.samples.size(), of.samples.size() == 1 ? "" : "s", of.slots, of.slots == 1 ? "" : "s",
      of.overlap, origin_of(of.predicts),
      of.goal == objective::time ? "time" : "balance alone, as if links were free");
  constexpr auto columns =
      "{:<26} | {:>8} {:>8} | {:>8} {:>8} | {:>10} {:>10} {:>10} {:>10} | {:>12} {:>9}\n";
  text += "# " + fmt::format(columns, "", "over EP", "layers", "max/mean", "p95", "iteration",
                             "compute", "tokens", "exposed", "sent", "memory");
  text += "# " + fmt::format(columns, "policy", "x", "x", "", "", "us", "us", "us", "us", "GB",
                             "GB/device");
  return text;
}

[[nodiscard]] inline std::string table_line(comparison const& one) {
  auto const& of = one.of;
  return fmt::format(
      "  {:<26} | {:>8.3f} {:>8.3f} | {:>8.3f} {:>8.3f} | {:>10.0f} {:>10.0f} {:>10.0f} {:>10.0f} "
      "| {:>12.3f} {:>9.3f}\n",
      of.policy, one.speedup(), one.layer_speedup(), mean(of.max_over_mean),
      percentile(of.max_over_mean, 0.95), of.seconds() * 1e6,
      of.sum(&layer_result::compute_seconds) * 1e6, of.sum(&layer_result::token_seconds) * 1e6,
      of.sum(&layer_result::exposed_seconds) * 1e6, of.bytes / 1e9, of.memory_bytes / 1e9);
}

}  // namespace sim
