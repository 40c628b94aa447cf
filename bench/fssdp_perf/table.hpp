// SPDX-License-Identifier: Apache-2.0
/// Measurements as a table, line by line.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <span>
#include <string>

#include "fssdp/version.hpp"
#include "result.hpp"

namespace perf {

/// What is common to all lines, the names of the columns and their units.
[[nodiscard]] inline std::string table_head(options const& of) {
  auto const with_baseline = of.baseline != baseline::none;
  auto text = fmt::format(
      "# fssdp_perf {}.{}.{}: {} ranks on {} node{} ({}), {} experts, seed {}, {} buffers\n"
      "# median of {} calls after {} for warmup{}\n#\n",
      fssdp::version_major, fssdp::version_minor, fssdp::version_patch, of.ranks, of.nodes,
      of.nodes == 1 ? "" : "s", name_of(of.backend), expert_count(of), of.seed, name_of(of.memory),
      of.iterations, of.warmup, of.check ? ", every element compared" : "");
  constexpr auto left = "{:>3} {:>11} {:>10} {:>6} {:>8} {:>8} {:>4}";
  constexpr auto right = " | {:>10} {:>7} {:>7} {:>10} {:>12} {:>12} {:>8} {:>8}";
  constexpr auto beside = " | {:>14} {:>8}";
  text +=
      "# " + fmt::format(left, "", "case", "bytes", "chunks", "replicas", "type", "op") +
      fmt::format(right, "time", "algbw", "busbw", "efficiency", "bound", "wire", "plan", "wrong");
  if (with_baseline) text += fmt::format(beside, name_of(of.baseline), "speedup");
  text += "\n# " + fmt::format(left, "", "", "B/expert", "", "", "", "") +
          fmt::format(right, "us", "GB/s", "GB/s", "%", "", "B", "us", "elements");
  if (with_baseline) text += fmt::format(beside, "us", "x");
  return text + "\n";
}

[[nodiscard]] inline std::string table_line(result const& of) {
  auto text = fmt::format(
      "  {:>3} {:>11} {:>10} {:>6} {:>8} {:>8} {:>4}"
      " | {:>10.1f} {:>7.2f} {:>7.2f} {:>10.1f} {:>12} {:>12} {:>8.1f} {:>8}",
      name_of(of.collective), name_of(of.of_case), of.bytes, of.chunks, of.replicas,
      name_of(of.dtype), op(of), of.seconds * 1e6, algbw(of), busbw(of), efficiency(of), of.bound,
      of.wire, of.plan_seconds * 1e6,
      of.wrong.has_value() ? fmt::format("{}", *of.wrong) : std::string{"-"});
  if (of.baseline_seconds.has_value())
    text += fmt::format(" | {:>14.1f} {:>8.2f}", *of.baseline_seconds * 1e6, *speedup(of));
  return text + "\n";
}

/// What a ratio adds to a geometric mean; nothing where there was nothing to do.
[[nodiscard]] inline double log_of(double ratio) { return ratio > 0 ? std::log(ratio) : 0.0; }

/// Geometric means over all lines, and what the check finds.
[[nodiscard]] inline std::string table_foot(std::span<result const> all) {
  auto efficiencies = 0.0;
  auto tight = 0.0;
  auto simulated = 0.0;
  auto speedups = 0.0;
  auto wrong = std::size_t{0};
  auto baseline_wrong = std::size_t{0};
  auto beyond = 0;
  for (auto const& one : all) {
    efficiencies += log_of(efficiency(one));
    tight += one.tight_bound_seconds > 0 ? log_of(one.seconds / one.tight_bound_seconds) : 0.0;
    simulated += log_of(one.seconds / one.simulated_seconds.value_or(one.seconds));
    speedups += log_of(speedup(one).value_or(1));
    wrong += one.wrong.value_or(0);
    baseline_wrong += one.baseline_wrong;
    beyond += efficiency(one) > 100 ? 1 : 0;
  }
  if (all.empty()) return {};
  auto const count = static_cast<double>(all.size());
  auto text =
      fmt::format("#\n# geometric mean of efficiency: {:.1f} %\n", std::exp(efficiencies / count));
  text += fmt::format("# geometric mean of time over the tight bound: {:.3f}\n",
                      std::exp(tight / count));
  if (all.front().simulated_seconds.has_value())
    text += fmt::format("# geometric mean of time over simulated time: {:.3f}\n",
                        std::exp(simulated / count));
  if (all.front().baseline_seconds.has_value())
    text += fmt::format("# geometric mean of speedup over {}: {:.2f}\n",
                        name_of(all.front().baseline), std::exp(speedups / count));
  if (all.front().wrong.has_value())
    text +=
        fmt::format("# check: {} wrong, {} wrong in bounds and baseline, {} of {} beyond 100 %\n",
                    wrong, baseline_wrong, beyond, all.size());
  if (all.front().baseline_setup_seconds > 0) {
    auto setup = 0.0;
    for (auto const& one : all) setup += one.baseline_setup_seconds / count;
    text += fmt::format("# its communicators took {:.1f} us to make, on average: not counted\n",
                        setup * 1e6);
  }
  return text;
}

}  // namespace perf
