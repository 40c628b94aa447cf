// SPDX-License-Identifier: Apache-2.0
// Measures iterations of MoE training on emulated devices: fssdp_step --help
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "command_line.hpp"
#include "fssdp_sim/progress.hpp"
#include "fssdp_sim/scenarios.hpp"
#include "measure.hpp"
#include "program/run_program.hpp"
#include "report.hpp"

namespace {

void print(std::string const& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

/// The first sample predicts itself: where there are others, it does not count.
void leave_out_the_first(sim::scenario& of) {
  if (of.samples.size() > 1 && of.samples.front() == 0) of.samples.erase(of.samples.begin());
}

void run(step::options const& asked) {
  auto all = sim::prepare_all(asked.scene);
  auto steps = std::size_t{0};
  for (auto& one : all) {
    leave_out_the_first(one.of);
    steps += (one.of.samples.size() + 1) * (asked.policies.size() + 1);
  }
  auto shown = sim::progress{steps};
  auto json = nlohmann::ordered_json::array();
  if (asked.form == sim::output::csv) print(step::csv_head());
  auto const measure = [&](sim::scenario const& of, step::policy const& which, bool is_last) {
    auto const name = std::string{of.where->kind->name} + " " + std::string{which.name};
    auto const what = step::job{.of = of,
                                .which = which,
                                .emulates = asked.emulates,
                                .prefetch_distance = asked.prefetch_distance,
                                .interval = asked.interval,
                                .reshard_every = asked.reshard_every,
                                .plans_ahead = asked.plans_ahead,
                                .iteration_over = [&] { shown.step(name); }};
    return step::measure_threads(what, std::chrono::seconds{asked.deadline_seconds},
                                 is_last ? asked.timeline : std::filesystem::path{});
  };
  for (auto const& one : all) {
    auto const& ep_policy = step::policies.front();
    auto const ep = measure(one.of, ep_policy, false);
    if (asked.form == sim::output::table) {
      shown.clear();
      print((&one == &all.front() ? "" : "\n") + step::table_head(one.of, asked));
    }
    for (auto const* which : asked.policies) {
      auto const is_last = which == asked.policies.back() && &one == &all.back();
      auto const result = which == &ep_policy && !is_last ? ep : measure(one.of, *which, is_last);
      shown.clear();
      if (asked.form == sim::output::table) print(step::table_line(result, ep));
      if (asked.form == sim::output::csv) print(step::csv_line(result, ep));
      if (asked.form == sim::output::json) json.push_back(step::to_json(result, ep));
      auto const warning = step::warning_of(result);
      if (asked.form == sim::output::table)
        print(warning);
      else
        std::fputs(warning.c_str(), stderr);
    }
  }
  if (asked.form == sim::output::json) print(json.dump(1) + "\n");
}

}  // namespace

int main(int argc, char** argv) {
  return program::run_program({.name = "fssdp_step",
                               .exit_code_of_failure = 2,
                               .sizes = "expected a larger --scale, or fewer --layers, --experts "
                                        "or --devices"},
                              argc, argv, step::read_command_line, run);
}
