// SPDX-License-Identifier: Apache-2.0
/// Measurements as a table, JSON and CSV.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "fssdp_sim/show_between.hpp"
#include "fssdp_sim/simulate.hpp"
#include "fssdp_sim/table.hpp"
#include "measurement.hpp"
#include "options.hpp"

namespace step {

namespace detail {

inline constexpr auto columns =
    "{:<18} | {:>10} {:>10} {:>7} | {:>10} {:>6} | {:>8} | {:>9} {:>5} | {:>9} | {:>7} {:>7} | "
    "{:>8} {:>8} | {:>4}";

inline constexpr auto between_columns = " | {:>12} {:>6} {:>9} {:>9}";

[[nodiscard]] inline std::string us(double seconds) { return fmt::format("{:.0f}", seconds * 1e6); }

}  // namespace detail

/// From here on the host is part of what is measured.
inline constexpr auto most_busy = 0.5;

/// The cluster, how it is emulated, and the columns.
/// @param devices real ones by name; empty where they are emulated
/// @param between null: one group
[[nodiscard]] inline std::string table_head(sim::scenario const& of, options const& asked,
                                            emulation const& emulates,
                                            std::string const& devices = {},
                                            sim::group_setting const* between = nullptr) {
  auto text = sim::table_title(of);
  text +=
      devices.empty()
          ? fmt::format("# emulated: bytes 1/{:.0f}, times x {:g}; ", emulates.scale, emulates.slow)
          : fmt::format("# measured on {}: bytes 1/{:g}; ", devices, emulates.scale);
  text += fmt::format(
      "{} iteration{}, {} slot{} per device, overlap {}; loads {}; {} layer{} gathered ahead\n",
      of.samples.size(), of.samples.size() == 1 ? "" : "s", of.slots, of.slots == 1 ? "" : "s",
      of.overlap, sim::origin_of(of.predicts), asked.prefetch_distance,
      asked.prefetch_distance == 1 ? "" : "s");
  auto const groups = between != nullptr;
  if (groups)
    text += fmt::format("# {} groups of these, {} between them, {:.4g} GB/s; {}\n", between->groups,
                        between::text_of(between->method), between->bytes_per_second / 1e9,
                        sim::text_of(between->rhythm));
  text += "# " + fmt::format(detail::columns, "", "iteration", "p95", "over EP", "model", "ratio",
                             "max/mean", "exposed", "", "tokens", "solve", "plan", "sent",
                             "replicas", "host");
  if (groups)
    text += fmt::format(detail::between_columns, "sent between", "ratio", "waits", "model");
  text += "\n# " + fmt::format(detail::columns, "policy", "us", "us", "x", "us", "x", "", "us", "%",
                               "us", "us", "us", "GB", "MB", "%");
  if (groups) text += fmt::format(detail::between_columns, "MB/device", "x", "us", "us");
  return text + "\n";
}

[[nodiscard]] inline std::string table_line(measurement const& of, measurement const& ep) {
  using detail::us;
  auto const share = [](double part) { return fmt::format("{:.0f}", 100 * part); };
  auto line =
      "  " + fmt::format(detail::columns, of.policy, us(of.seconds()), us(of.p95()),
                         fmt::format("{:.3f}", ep.seconds() / of.seconds()),
                         us(of.predicted_seconds),
                         fmt::format("{:.3f}", of.measured_over_predicted()),
                         fmt::format("{:.3f}", of.max_over_mean),
                         us(of.median(&iteration_record::exposed_seconds)),
                         share(of.exposed_share()), us(of.median(&iteration_record::token_seconds)),
                         us(of.median(&iteration_record::solving_seconds)),
                         us(of.median(&iteration_record::planning_seconds)),
                         fmt::format("{:.3f}", of.bytes / 1e9),
                         fmt::format("{:.1f}", of.replica_bytes / 1e6), share(of.busy_share()));
  if (of.between.groups > 1)
    line += fmt::format(detail::between_columns, fmt::format("{:.3f}", of.between_bytes() / 1e6),
                        fmt::format("{:.3f}", of.between_bytes() / of.predicted_between_bytes),
                        us(of.between_seconds()), us(of.predicted_between_seconds));
  return line + "\n";
}

/// What a reader must know of a measurement; empty if there is nothing.
[[nodiscard]] inline std::string warning_of(measurement const& of) {
  if (of.busy_share() <= most_busy) return {};
  return fmt::format(
      "  ! {}: the host was busy for {:.0f} % of the time, so that it is part of what was "
      "measured: expected a larger --slow or --scale\n",
      of.policy, 100 * of.busy_share());
}

/// Times in microseconds of the real cluster.
[[nodiscard]] inline nlohmann::ordered_json to_json(measurement const& of, measurement const& ep) {
  auto const us = [&](double iteration_record::*part) { return of.median(part) * 1e6; };
  auto written =
      nlohmann::ordered_json{{"policy", of.policy},
                             {"model", of.model},
                             {"cluster", of.cluster},
                             {"devices", of.devices},
                             {"slots", of.slots},
                             {"layers", of.layers},
                             {"iterations", of.iterations.size()},
                             {"measured_us", of.seconds() * 1e6},
                             {"p95_us", of.p95() * 1e6},
                             {"predicted_us", of.predicted_seconds * 1e6},
                             {"predicted_planning_us", of.predicted_planning_seconds * 1e6},
                             {"measured_over_predicted", of.measured_over_predicted()},
                             {"over_ep", ep.seconds() / of.seconds()},
                             {"load_max_over_mean", of.max_over_mean},
                             {"exposed_us", us(&iteration_record::exposed_seconds)},
                             {"moving_us", us(&iteration_record::moving_seconds)},
                             {"exposed_share", of.exposed_share()},
                             {"tokens_us", us(&iteration_record::token_seconds)},
                             {"solving_us", us(&iteration_record::solving_seconds)},
                             {"planning_us", us(&iteration_record::planning_seconds)},
                             {"bytes", of.bytes},
                             {"replica_bytes", of.replica_bytes},
                             {"host_busy_share", of.busy_share()}};
  if (of.between.groups == 1) return written;
  written["groups"] = of.between.groups;
  written["between"] = between::text_of(of.between.method);
  sim::write_rhythm(of.between.rhythm, written);
  written["between_bytes_per_second"] = of.between.bytes_per_second;
  written["between_bytes"] = of.between_bytes();
  written["predicted_between_bytes"] = of.predicted_between_bytes;
  written["between_exposed_us"] = of.between_seconds() * 1e6;
  written["predicted_between_exposed_us"] = of.predicted_between_seconds * 1e6;
  return written;
}

[[nodiscard]] inline std::string csv_head() {
  return std::string{
             "cluster,devices,model,policy,measured_us,p95_us,predicted_us,over_ep,load_max_over_"
             "mean,"
             "exposed_us,exposed_share,tokens_us,solving_us,planning_us,bytes,replica_bytes,"
             "host_busy_share,groups,between,"} +
         sim::rhythm_csv_head +
         ",between_bytes_per_second,between_bytes,"
         "between_exposed_us,predicted_between_exposed_us\n";
}
[[nodiscard]] inline std::string csv_line(measurement const& of, measurement const& ep) {
  auto const us = [&](double iteration_record::*part) { return of.median(part) * 1e6; };
  return fmt::format(
      "{},{},{},{},{:.0f},{:.0f},{:.0f},{:.4f},{:.4f},{:.0f},{:.4f},{:.0f},{:.0f},{:.0f},{:.0f},"
      "{:.0f},{:.3f},{},{},{},{:.6g},{:.0f},{:.0f},{:.0f}\n",
      of.cluster, of.devices, of.model, of.policy, of.seconds() * 1e6, of.p95() * 1e6,
      of.predicted_seconds * 1e6, ep.seconds() / of.seconds(), of.max_over_mean,
      us(&iteration_record::exposed_seconds), of.exposed_share(),
      us(&iteration_record::token_seconds), us(&iteration_record::solving_seconds),
      us(&iteration_record::planning_seconds), of.bytes, of.replica_bytes, of.busy_share(),
      of.between.groups, of.between.groups > 1 ? between::text_of(of.between.method) : "",
      sim::csv_cells(of.between.rhythm), of.between.bytes_per_second, of.between_bytes(),
      of.between_seconds() * 1e6, of.predicted_between_seconds * 1e6);
}

}  // namespace step
