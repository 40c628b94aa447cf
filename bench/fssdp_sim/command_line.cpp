// SPDX-License-Identifier: Apache-2.0
// The options as CLI11 knows them.
#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "help.hpp"
#include "program/not_empty.hpp"
#include "program/parse_arguments.hpp"
#include "scene_command_line.hpp"

namespace sim {
namespace {

/// What is neither a plain number nor part of the scene passes through these.
struct raw_options {
  std::vector<std::string> policies = {"all"};
  std::string goal = "time";
  std::string dump = {};
  std::string write_trace = {};
  bool json = false;
  bool csv = false;
};

void declare_judgement(CLI::App& app, raw_options& raw) {
  constexpr auto group = "Policies";
  detail::add_list(app, group, "NAME,...", "--policy", raw.policies,
                   "Some of the policies below, or all");
  detail::add(
      app, group, "NAME", "--objective", raw.goal,
      "time: placements are compared by the time in the\nmodel; balance: by the fullest device "
      "only, as if\nlinks were free, and with the real loads");
}

void declare_output(CLI::App& app, options& chosen, raw_options& raw) {
  constexpr auto group = "Output";
  app.add_option("--write-trace", raw.write_trace, "Write the loads into this file, as CSV")
      ->check(program::not_empty("a file"))
      ->type_name("FILE")
      ->group(group);
  app.add_flag(
         "--advise", chosen.advise,
         "Say whether replication pays, and with how many\nslots; report loads, and good owners")
      ->group(group);
  app.add_flag("--time", chosen.timed,
               "Also measure solving and planning: more columns\nin the table and in JSON")
      ->group(group);
  app.add_flag("--json", raw.json, "Print JSON instead of a table")->group(group);
  app.add_flag("--csv", raw.csv, "Print CSV instead: a line per policy and layer")->group(group);
  app.add_option("--dump", raw.dump,
                 "Write placements and routing into this file, one\nJSON object per line")
      ->check(program::not_empty("a file"))
      ->type_name("FILE")
      ->group(group);
}

void take_over(raw_options const& raw, options& chosen) {
  chosen.policies = detail::chosen_from("--policy", raw.policies, policies);
  if (raw.goal != "time" && raw.goal != "balance")
    throw std::invalid_argument{"--objective " + raw.goal + ": expected time or balance"};
  chosen.goal = raw.goal == "time" ? objective::time : objective::balance;
  chosen.form = raw.json ? output::json : raw.csv ? output::csv : output::table;
  chosen.dump = raw.dump;
  chosen.write_trace = raw.write_trace;
}

void validate(options const& of, raw_options const& raw, CLI::App const& app) {
  if (raw.json && raw.csv) throw std::invalid_argument{"--json --csv: expected one of them"};
  if (of.advise && raw.csv)
    throw std::invalid_argument{"--advise --csv: expected --json or neither"};
  for (auto const* name : {"--policy", "--slots", "--time"})
    if (of.advise && app.count(name) > 0)
      throw std::invalid_argument{
          std::string{"--advise "} + name +
          ": it tries numbers of slots by itself, for ours; expected one of them"};
  if (of.timed && raw.csv) throw std::invalid_argument{"--time --csv: expected --json or neither"};
  if (of.advise && !raw.dump.empty())
    throw std::invalid_argument{"--advise --dump: expected one of them"};
  if (of.advise && !raw.write_trace.empty())
    throw std::invalid_argument{"--advise --write-trace: expected one of them"};
  for (auto const* name : {"--advise", "--time"})
    if (of.between.groups > 1 && app.count(name) > 0)
      throw std::invalid_argument{"--groups " + std::string{name} + ": expected one of them"};
  if (of.between.groups > 1 && of.goal == objective::balance)
    throw std::invalid_argument{"--groups --objective balance: expected one of them"};
  if (!raw.write_trace.empty() &&
      of.clusters.size() * of.models.size() * std::max<std::size_t>(of.devices.size(), 1) > 1)
    throw std::invalid_argument{"--write-trace " + raw.write_trace +
                                ": expected one cluster and one model"};
}

}  // namespace

program::command_line<options> read_command_line(int argc, char const* const* argv) {
  auto chosen = options{};
  auto raw = raw_options{};
  auto scene = scene_command_line{chosen};
  auto app = CLI::App{detail::about, "fssdp_sim"};
  app.get_formatter()->column_width(30);
  auto const footer = detail::footer();
  app.footer(footer);
  scene.declare_loads(app);
  scene.declare_process(app);
  scene.declare_scene(app, "What is simulated (lists are combined, each with all)");
  scene.declare_groups(app);
  declare_judgement(app, raw);
  declare_output(app, chosen, raw);
  return program::parse_arguments(app, argc, argv, chosen, [&] {
    scene.accept(app);
    take_over(raw, chosen);
    validate(chosen, raw, app);
  });
}

}  // namespace sim
