// SPDX-License-Identifier: Apache-2.0
/// Results as a table: a block for each cluster and model.
#pragma once

#include <fmt/format.h>

#include <string>

#include "comparison.hpp"
#include "setting.hpp"
#include "simulate.hpp"

namespace sim {

namespace detail {

inline constexpr auto columns =
    "{:<26} | {:>8} {:>8} | {:>8} {:>8} | {:>10} {:>10} {:>10} {:>10} | {:>12} {:>9} {:>9}";
inline constexpr auto time_columns = " | {:>9} {:>9}";

}  // namespace detail

/// The model, the cluster and the loads.
[[nodiscard]] inline std::string table_title(scenario const& of) {
  auto const& where = *of.where;
  auto const nodes = where.topology.nodes();
  auto text = fmt::format(
      "# {} on cluster {}: {} devices ({}), {} node{}; {} layers of {} experts, {:.0f} tokens per "
      "device\n",
      where.model->name, where.kind->name, where.topology.ranks(), where.kind->device, nodes,
      nodes == 1 ? "" : "s", where.layers, where.experts, where.tokens_per_device);
  if (of.layer_ids.size() < static_cast<std::size_t>(where.layers))
    text += fmt::format("# {} of {} layers are simulated, and scaled\n", of.layer_ids.size(),
                        where.layers);
  if (where.experts < where.topology.ranks())
    text += fmt::format("# more devices than experts: ep, smartmoe and shards leave {} idle\n",
                        where.topology.ranks() - where.experts);
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
  text +=
      "# " + fmt::format(detail::columns, "", "over EP", "layers", "max/mean", "p95", "iteration",
                         "compute", "tokens", "exposed", "sent", "NIC in", "memory");
  if (of.timed) text += fmt::format(detail::time_columns, "solving", "planning");
  text += "\n# " + fmt::format(detail::columns, "policy", "x", "x", "", "", "us", "us", "us", "us",
                               "GB", "GB", "GB/device");
  if (of.timed) text += fmt::format(detail::time_columns, "us", "us");
  return text + "\n";
}

[[nodiscard]] inline std::string table_line(comparison const& one) {
  auto const& of = one.of;
  auto const number = [](double value, int digits) {
    return fmt::format("{:.{}f}", value, digits);
  };
  auto const us = [&](double seconds) { return number(seconds * 1e6, 0); };
  auto text =
      "  " + fmt::format(detail::columns, of.policy, number(one.speedup(), 3),
                         number(one.layer_speedup(), 3), number(mean(of.max_over_mean), 3),
                         number(percentile(of.max_over_mean, 0.95), 3), us(of.seconds()),
                         us(of.sum(&layer_result::compute_seconds)),
                         us(of.sum(&layer_result::token_seconds)),
                         us(of.sum(&layer_result::exposed_seconds)), number(of.bytes / 1e9, 3),
                         number(of.interface_bytes / 1e9, 3), number(of.memory_bytes / 1e9, 3));
  if (!of.solving_seconds.empty())
    text += fmt::format(detail::time_columns, us(percentile(of.solving_seconds, 0.5)),
                        us(percentile(of.planning_seconds, 0.5)));
  return text + "\n";
}

}  // namespace sim
