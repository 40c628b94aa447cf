// SPDX-License-Identifier: Apache-2.0
/// What is printed when a run is over.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "blas.hpp"
#include "options.hpp"
#include "readable.hpp"
#include "recovery_line.hpp"
#include "report.hpp"

namespace moe_gpt {

namespace detail {

/// The mean of a figure over some steps.
template <class Figure>
[[nodiscard]] double mean_of(std::span<step_record const> steps, Figure const& figure) {
  auto sum = 0.0;
  for (auto const& step : steps) sum += static_cast<double>(figure(step));
  return steps.empty() ? 0 : sum / static_cast<double>(steps.size());
}

[[nodiscard]] inline std::string traffic(std::span<step_record const> steps,
                                         std::uint64_t step_record::*bytes) {
  auto const per_step = mean_of(steps, [&](step_record const& step) { return step.*bytes; });
  return fmt::format("{} per step, {} in all", readable_bytes(per_step),
                     readable_bytes(per_step * static_cast<double>(steps.size())));
}

}  // namespace detail

/// The closing table, a line per figure.
[[nodiscard]] inline std::string summary_table(options const& chosen, run_record const& record) {
  auto const steps = std::span{record.steps};
  auto const last = steps.last(std::min<std::size_t>(10, steps.size()));
  auto const loss = [](step_record const& step) { return step.loss; };
  auto const seconds_per_token =
      detail::mean_of(steps, [](step_record const& step) { return 1 / step.tokens_per_second; });
  auto rows = std::vector<std::pair<std::string, std::string>>{};
  rows.emplace_back("mode", fmt::format("{}, {} ranks on {} node{}, {} on the wire",
                                        name_of(chosen.mode), chosen.ranks, chosen.nodes,
                                        chosen.nodes == 1 ? "" : "s", name_of(chosen.wire)));
  rows.emplace_back("parameters",
                    fmt::format("{} in {} layers of {} experts",
                                readable_count(static_cast<double>(record.parameters)),
                                chosen.layers, chosen.experts));
  rows.emplace_back("matrix products", products_by());
  if (!steps.empty())
    rows.emplace_back("training loss",
                      fmt::format("{:.3f} at first, {:.3f} over the last {} steps (nats per byte)",
                                  steps.front().loss, detail::mean_of(last, loss), last.size()));
  rows.emplace_back("held-out loss", fmt::format("{:.3f}", record.heldout_loss));
  rows.emplace_back("tokens per second",
                    seconds_per_token > 0 ? readable_count(1 / seconds_per_token) : "-");
  rows.emplace_back(
      "load max/mean",
      fmt::format("{:.2f} under EP, {:.2f} now (mean over steps and layers)",
                  detail::mean_of(steps, [](auto const& s) { return s.load_max_over_mean_ep; }),
                  detail::mean_of(steps, [](auto const& s) { return s.load_max_over_mean; })));
  rows.emplace_back("experts gathered", detail::traffic(steps, &step_record::gathered_bytes));
  rows.emplace_back("gradients reduced", detail::traffic(steps, &step_record::reduced_bytes));
  if (chosen.groups > 1)
    rows.emplace_back(
        "between groups",
        fmt::format("{}: {} of {}{}", detail::traffic(steps, &step_record::between_bytes),
                    chosen.between, chosen.sync_every > 0 ? "parameters" : "gradients",
                    chosen.sync_every > 0 ? fmt::format(", after {} steps{}", chosen.sync_every,
                                                        chosen.sync_alpha > 0 ? " or more" : "")
                                          : ""));
  if (chosen.reshard_every > 0) {
    auto const reshards =
        std::ranges::count_if(steps, [](step_record const& s) { return s.moved_bytes > 0; });
    auto moved = 0.0;
    for (auto const& step : steps) moved += static_cast<double>(step.moved_bytes);
    rows.emplace_back("owners changed",
                      fmt::format("{} times, where it paid; {} of experts and moments in all",
                                  reshards, readable_bytes(moved)));
  }
  rows.emplace_back("replicas",
                    fmt::format("at most {} on a rank, {}",
                                readable_bytes(static_cast<double>(record.peak_replica_bytes)),
                                chosen.rematerialize ? "gathered again for the backward pass"
                                                     : "kept for the backward pass"));
  if (chosen.offload != offload::none)
    rows.emplace_back(
        "in files",
        fmt::format(
            "{} over all ranks, {}", readable_bytes(static_cast<double>(record.offloaded_bytes)),
            chosen.offload == offload::all ? "all that they own" : "the moments of what they own"));
  if (chosen.mirror_every > 0) {
    rows.emplace_back(
        "mirrors",
        fmt::format("{} every {} step{}, for which the first rank waited {:.1f} ms in all",
                    readable_bytes(static_cast<double>(record.mirrored_bytes)), chosen.mirror_every,
                    chosen.mirror_every == 1 ? "" : "s", 1e3 * record.mirror_seconds));
    for (auto const& of : record.recoveries) rows.emplace_back("recovery", recovery_line(of));
  }
  auto const moving = detail::mean_of(steps, [](auto const& s) { return s.communication_seconds; });
  auto const waiting = detail::mean_of(steps, [](auto const& s) { return s.exposed_seconds; });
  rows.emplace_back("experts on the move",
                    fmt::format("{:.1f} ms per step, of which ranks waited {:.1f} ms", 1e3 * moving,
                                1e3 * waiting));
  auto const total = [&](int fssdp::iteration_metrics::*count) {
    auto sum = 0;
    for (auto const& step : steps) sum += step.experts.*count;
    return sum;
  };
  if (auto const shrunk = total(&fssdp::iteration_metrics::placements_shrunk); shrunk > 0)
    rows.emplace_back("memory was short",
                      fmt::format("{} placements had fewer replicas than wanted", shrunk));
  if (chosen.calibrate)
    rows.emplace_back("calibrations",
                      fmt::format("{} accepted, {} rejected",
                                  total(&fssdp::iteration_metrics::calibrations_accepted),
                                  total(&fssdp::iteration_metrics::calibrations_rejected)));
  auto table = std::string{};
  for (auto const& [name, value] : rows) table += fmt::format("  {:<20} {}\n", name, value);
  return table;
}

/// The sample, indented; the prompt is the model's to continue and comes from the held-out text.
[[nodiscard]] inline std::string sample_text(written_text const& sample) {
  auto const indented = [](std::string const& text) {
    auto lines = std::string{"  "};
    for (auto const letter : text) {
      lines += letter;
      if (letter == '\n') lines += "  ";
    }
    return lines + "\n";
  };
  return "\nGiven this text, which it has not seen,\n" + indented(printable(sample.prompt)) +
         "the model goes on:\n" + indented(printable(sample.continuation));
}

}  // namespace moe_gpt
