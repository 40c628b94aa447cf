// SPDX-License-Identifier: Apache-2.0
/// Advice as text and as JSON.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "advice.hpp"
#include "table.hpp"

namespace sim {

[[nodiscard]] inline std::string verdict(advice const& of) {
  auto const& best = of.best();
  if (!of.pays())
    return fmt::format(
        "Replication does not pay here: without it, owners by load are within {:.0f}% of the best,"
        " {:.2f}x over EP.\n",
        100 * (good_enough - 1), of.speedup_over_ep());
  return fmt::format(
      "Replication pays: with {} slot{} per device an iteration is {:.2f}x as fast as without, "
      "{:.2f}x over EP,\nfor {:.3f} GB more on the device that has most.\n",
      best.slots, best.slots == 1 ? "" : "s", of.gain(), of.speedup_over_ep(),
      std::max(0.0, best.memory_bytes - of.by_slots.front().memory_bytes) / 1e9);
}

namespace detail {

inline std::string spread_line(std::string const& name, std::vector<double> const& values) {
  return fmt::format("  {:<28} | {:>7.3f} {:>7.3f} {:>7.3f} {:>7.3f} {:>7.3f}\n", name,
                     mean(values), percentile(values, 0.5), percentile(values, 0.95),
                     percentile(values, 0.99), percentile(values, 1));
}
inline nlohmann::ordered_json spread_json(std::vector<double> const& values) {
  return {{"mean", mean(values)},
          {"p50", percentile(values, 0.5)},
          {"p95", percentile(values, 0.95)},
          {"p99", percentile(values, 0.99)},
          {"max", percentile(values, 1)}};
}

inline std::string owners_line(std::string const& name, owner_figures const& of) {
  return fmt::format("  {:<28} | {:>9.3f} {:>8.3f} | {:>9.3f} {:>8.3f} | {:>8.3f}\n", name,
                     static_cast<double>(of.most.bytes) / 1e9, of.bytes_over_mean,
                     static_cast<double>(of.most.step_cost) / 1e12, of.step_cost_over_mean,
                     of.load_over_mean);
}
inline std::string owners_text(owners_of_all const& of) {
  auto text = fmt::format("\n# {:<28} | {:>9} {:>8} | {:>9} {:>8} | {:>8}\n", "owners, fullest",
                          "GB", "/ mean", "TFLOP", "/ mean", "load");
  text += owners_line("in blocks", of.blocks);
  text += owners_line("ownership_planner", of.planned);
  text += fmt::format(
      "  {} experts and {} matrices, {:.3f} GB: {} move, {:.3f} GB; the fullest place is {:.3f} of "
      "what is fair, the bound is {:.3f}\n",
      of.experts, of.matrices, of.bytes / 1e9, of.plan.moved_items,
      static_cast<double>(of.plan.moved_bytes) / 1e9, of.plan.fullness, of.plan.bound);
  return text;
}
inline nlohmann::ordered_json owners_json(owner_figures const& of) {
  return {{"most_bytes", of.most.bytes},
          {"bytes_over_mean", of.bytes_over_mean},
          {"most_step_flops", of.most.step_cost},
          {"step_flops_over_mean", of.step_cost_over_mean},
          {"load_over_mean", of.load_over_mean}};
}
inline nlohmann::ordered_json owners_json(owners_of_all const& of) {
  return {{"experts", of.experts},
          {"matrices", of.matrices},
          {"bytes", static_cast<std::uint64_t>(std::llround(of.bytes))},
          {"blocks", owners_json(of.blocks)},
          {"planned", owners_json(of.planned)},
          {"fullness", of.plan.fullness},
          {"bound", of.plan.bound},
          {"moved_items", of.plan.moved_items},
          {"moved_bytes", of.plan.moved_bytes}};
}

}  // namespace detail

/// The verdict, the result for each number of slots, how loads spread before and after, and owners
/// of all experts and matrices.
[[nodiscard]] inline std::string to_text(advice const& of, scenario const& about) {
  auto text = table_title(about) + verdict(of) + "\n";
  text += fmt::format("# {:>5} | {:>7} | {:>8} {:>8} | {:>12} | {:>9}\n", "slots", "over EP",
                      "max/mean", "p95", "iteration us", "GB/device");
  for (auto const& one : of.by_slots)
    text += fmt::format("{} {:>5} | {:>7.3f} | {:>8.3f} {:>8.3f} | {:>12.0f} | {:>9.3f}\n",
                        &one == &of.best() ? '>' : ' ', one.slots, of.ep.seconds() / one.seconds(),
                        mean(one.max_over_mean), percentile(one.max_over_mean, 0.95),
                        one.seconds() * 1e6, one.memory_bytes / 1e9);
  text += fmt::format("\n# {:<28} | {:>7} {:>7} {:>7} {:>7} {:>7}\n", "load report", "mean", "p50",
                      "p95", "p99", "max");
  text += detail::spread_line("experts, load / mean", of.expert_loads);
  text += detail::spread_line("devices before, max / mean", of.ep.max_over_mean);
  text += detail::spread_line("devices after, max / mean", of.best().max_over_mean);
  text += detail::owners_text(of.owners);
  return text;
}

[[nodiscard]] inline nlohmann::ordered_json to_json(advice const& of) {
  auto by_slots = nlohmann::ordered_json::array();
  for (auto const& one : of.by_slots)
    by_slots.push_back(
        {{"slots", one.slots},
         {"speedup_over_ep", of.ep.seconds() / one.seconds()},
         {"load_max_over_mean", mean(one.max_over_mean)},
         {"load_p95", percentile(one.max_over_mean, 0.95)},
         {"iteration_us", one.seconds() * 1e6},
         {"memory_bytes", static_cast<std::uint64_t>(std::llround(one.memory_bytes))}});
  return {{"model", of.ep.model},
          {"cluster", of.ep.cluster},
          {"devices", of.ep.devices},
          {"policy", of.best().policy},
          {"pays", of.pays()},
          {"slots", of.best().slots},
          {"speedup_over_ep", of.speedup_over_ep()},
          {"speedup_over_no_slots", of.gain()},
          {"by_slots", std::move(by_slots)},
          {"loads",
           {{"experts", detail::spread_json(of.expert_loads)},
            {"devices_before", detail::spread_json(of.ep.max_over_mean)},
            {"devices_after", detail::spread_json(of.best().max_over_mean)}}},
          {"owners", detail::owners_json(of.owners)}};
}

}  // namespace sim
