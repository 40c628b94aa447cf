// SPDX-License-Identifier: Apache-2.0
/// Results of groups as a table, JSON and CSV: a line for every policy, wire and method.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "between_result.hpp"
#include "json.hpp"
#include "table.hpp"

namespace sim {

namespace detail {

inline constexpr auto between_columns =
    "{:<18} {:<14} {:>9} | {:>10} {:>9} {:>8} | {:>12} {:>8} | {:>10} {:>10} {:>10}";

}  // namespace detail

/// How often, and what.
[[nodiscard]] inline std::string text_of(group_rhythm const& of) {
  if (of.sync_every == 0) return "gradients are sent in every iteration";
  auto text = std::string{"parameters are sent"};
  if (of.fragments > 1)
    text = fmt::format("{} fragments of parameters are sent in turn, each once in {} iterations",
                       of.fragments, of.sync_every);
  else
    text += of.sync_every == 1 ? " after every iteration"
                               : fmt::format(" after {} iterations", of.sync_every);
  if (of.outer == outer::co2) text += ", applied a round late (co2)";
  if (of.outer == outer::diloco) text += " (diloco)";
  if (of.sync_delay > 0) text += fmt::format(", applied {} later", of.sync_delay);
  return of.sync_every == 1 ? text : text + "; shares of one";
}

/// The group, how many of them there are, the columns.
[[nodiscard]] inline std::string between_table_head(scenario const& of,
                                                    group_options const& asked) {
  auto text = table_title(of);
  text += fmt::format(
      "# {} groups of these; {}; {} iteration{}, {} slot{} per device, overlap {}; loads {}\n",
      asked.groups, text_of(asked.rhythm), of.samples.size(), of.samples.size() == 1 ? "" : "s",
      of.slots, of.slots == 1 ? "" : "s", of.overlap, origin_of(of.predicts));
  text += "# " + fmt::format(detail::between_columns, "", "", "wire", "iteration", "over full",
                             "over EP", "sent between", "of full", "link", "exposed", "inside");
  return text + "\n# " +
         fmt::format(detail::between_columns, "policy", "between", "GB/s", "us", "x", "x",
                     "MB/device", "%", "us", "us", "us") +
         "\n";
}

[[nodiscard]] inline std::string table_line(between_result const& of) {
  auto const us = [](double seconds) { return fmt::format("{:.0f}", seconds * 1e6); };
  return "  " +
         fmt::format(detail::between_columns, of.inside.of.policy, between::text_of(of.of.method),
                     fmt::format("{:.4g}", of.of.bytes_per_second / 1e9), us(of.seconds()),
                     fmt::format("{:.3f}", of.over_full()), fmt::format("{:.3f}", of.over_ep()),
                     fmt::format("{:.3f}", of.cost.bytes / 1e6),
                     fmt::format("{:.2f}", 100 * of.share_of_full()), us(of.cost.link_seconds),
                     us(of.cost.exposed_seconds), us(of.inside.of.seconds())) +
         "\n";
}

inline void write_rhythm(group_rhythm const& of, nlohmann::ordered_json& to) {
  to["sync_every"] = of.sync_every;
  to["outer"] = name_of(of.outer);
  to["fragments"] = of.fragments;
  to["sync_delay"] = of.sync_delay;
}
/// The same as cells of a CSV file.
inline constexpr auto rhythm_csv_head = "sync_every,outer,fragments,sync_delay";
[[nodiscard]] inline std::string csv_cells(group_rhythm const& of) {
  return fmt::format("{},{},{},{}", of.sync_every, name_of(of.outer), of.fragments, of.sync_delay);
}

/// As without groups; iterations and what is over ep have in them what crosses.
[[nodiscard]] inline nlohmann::ordered_json to_json(between_result const& of) {
  auto written = to_json(of.inside);
  written["speedup_over_ep"] = of.over_ep();
  written["iteration_us"] = of.seconds() * 1e6;
  written["inside_us"] = of.inside.of.seconds() * 1e6;
  written["groups"] = of.of.groups;
  written["between"] = between::text_of(of.of.method);
  write_rhythm(of.of.rhythm, written);
  written["between_bytes_per_second"] = of.of.bytes_per_second;
  written["speedup_over_full"] = of.over_full();
  written["between_bytes"] = static_cast<std::uint64_t>(std::llround(of.cost.bytes));
  written["between_share_of_full"] = of.share_of_full();
  written["between_link_us"] = of.cost.link_seconds * 1e6;
  written["between_exposed_us"] = of.cost.exposed_seconds * 1e6;
  return written;
}

[[nodiscard]] inline std::string between_csv_head() {
  return fmt::format("cluster,devices,model,policy,groups,between,{},between_bytes_per_second,",
                     rhythm_csv_head) +
         "iteration_us,speedup_over_full,speedup_over_ep,between_bytes,between_share_of_full,"
         "between_link_us,between_exposed_us,inside_us\n";
}
[[nodiscard]] inline std::string csv_line(between_result const& of) {
  auto const& one = of.inside.of;
  return fmt::format(
      "{},{},{},{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.0f},{:.6g},{:.6g},{:.6g},{:.6g}\n",
      one.cluster, one.devices, one.model, one.policy, of.of.groups, between::text_of(of.of.method),
      csv_cells(of.of.rhythm), of.of.bytes_per_second, of.seconds() * 1e6, of.over_full(),
      of.over_ep(), of.cost.bytes, of.share_of_full(), of.cost.link_seconds * 1e6,
      of.cost.exposed_seconds * 1e6, one.seconds() * 1e6);
}

}  // namespace sim
