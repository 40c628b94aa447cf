// SPDX-License-Identifier: Apache-2.0
// The options as CLI11 knows them.
#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "fssdp_sim/scene_command_line.hpp"
#include "help.hpp"
#include "program/not_empty.hpp"
#include "program/parse_arguments.hpp"

namespace step {
namespace {

/// What is neither a plain number nor part of the scene passes through these.
struct raw_options {
  std::string backend = "thread";
  std::vector<std::string> policies = {"all"};
  std::string timeline = {};
  bool json = false;
  bool csv = false;
};

void declare_policies(CLI::App& app, options& chosen, raw_options& raw) {
  constexpr auto group = "Policies";
  sim::detail::add_list(app, group, "NAME,...", "--policy", raw.policies,
                        "Some of the policies below, or all; ep is always\nmeasured");
  sim::detail::add(app, group, "N", "--prefetch", chosen.prefetch_distance,
                   "How many layers are gathered ahead");
  app.add_flag("!--no-plan-ahead", chosen.plans_ahead,
               "Choose placements when a layer is gathered, not\nahead on a separate thread")
      ->group(group);
  sim::detail::add(app, group, "N", "--interval", chosen.interval,
                   "Iterations between two placements by eplb");
  sim::detail::add(app, group, "N", "--reshard-every", chosen.reshard_every,
                   "Choose new owners every N iterations, with hecate\nand ours; 0: never");
}

void declare_emulation(CLI::App& app, options& chosen, raw_options& raw) {
  constexpr auto group = "Emulation";
  sim::detail::add(app, group, "NAME", "--backend", raw.backend,
                   "What a device is: a thread with emulated links\n(thread); a process with real "
                   "links, under mpirun\n"
                   "(mpi: as many devices and nodes as mpirun has);\na GPU of this "
                   "host (nccl), or a share of one (cuda)")
      ->check(CLI::IsMember({"thread", "mpi", "cuda", "nccl"}));
  sim::detail::add(
      app, group, "B/S", "--wire", chosen.wire,
      "With mpi: bytes per second that a host can send.\nSets --slow so that this stands for the "
      "link of\nthe cluster")
      ->default_str("");
  sim::detail::add(
      app, group, "X", "--scale", chosen.emulates.scale,
      "Divide bytes and the rates of links by this; on\nGPUs also FLOPs, and the default "
      "is 1");
  sim::detail::add(app, group, "X", "--slow", chosen.emulates.slow,
                   "Multiply all times by this; not on GPUs");
  sim::detail::add(app, group, "S", "--deadline", chosen.deadline_seconds,
                   "Seconds after which a device that waits gives up");
}

void declare_output(CLI::App& app, raw_options& raw) {
  constexpr auto group = "Output";
  app.add_flag("--json", raw.json, "Print JSON instead of a table")->group(group);
  app.add_flag("--csv", raw.csv, "Print CSV instead of a table")->group(group);
  app.add_option("--timeline", raw.timeline,
                 "Write a timeline of the last iteration of the last\npolicy, for ui.perfetto.dev")
      ->check(program::not_empty("a file"))
      ->type_name("FILE")
      ->group(group);
}

void take_over(raw_options const& raw, options& chosen) {
  chosen.policies = sim::detail::chosen_from("--policy", raw.policies, policies);
  if (raw.json && raw.csv) throw std::invalid_argument{"--json --csv: expected one of them"};
  chosen.form = raw.json ? sim::output::json : raw.csv ? sim::output::csv : sim::output::table;
  chosen.timeline = raw.timeline;
  chosen.backend = raw.backend == "mpi"    ? backend::mpi
                   : raw.backend == "cuda" ? backend::cuda
                   : raw.backend == "nccl" ? backend::nccl
                                           : backend::thread;
}

/// On GPUs, defaults are others.
void take_defaults_of_gpus(options& chosen, CLI::App const& app) {
  if (!computes(chosen.backend)) return;
  if (app.count("--slow") > 0)
    throw std::invalid_argument{"--slow: expected --backend thread or mpi with it"};
  chosen.emulates.slow = 1;
  if (app.count("--scale") == 0) chosen.emulates.scale = 1;
  if (chosen.scene.devices.empty()) chosen.scene.devices = {8};
}

void validate(options const& of, CLI::App const& app) {
  if (of.backend != backend::mpi && app.count("--wire") > 0)
    throw std::invalid_argument{"--wire: expected --backend mpi with it"};
  if (app.count("--wire") > 0 && !(of.wire >= 1 && of.wire <= 1e15))
    throw std::invalid_argument{"--wire " + std::to_string(of.wire) + ": expected 1 to 1e15"};
  if (app.count("--wire") > 0 && app.count("--slow") > 0)
    throw std::invalid_argument{"--wire --slow: expected one of them"};
  if (of.backend == backend::mpi && (!of.scene.devices.empty() || of.scene.clusters.size() > 1))
    throw std::invalid_argument{
        "--backend mpi: expected one --cluster and no --devices: there are as many as processes"};
  if (of.backend != backend::thread && of.scene.between.groups > 1)
    throw std::invalid_argument{"--groups " + std::to_string(of.scene.between.groups) +
                                ": expected --backend thread with it"};
  sim::detail::require_at_least("--prefetch", of.prefetch_distance, 0);
  sim::detail::require_at_least("--interval", of.interval, 1);
  sim::detail::require_at_least("--reshard-every", of.reshard_every, 0);
  sim::detail::require_at_least("--deadline", of.deadline_seconds, 1);
  for (auto const& [name, value] :
       {std::pair{"--scale", of.emulates.scale}, std::pair{"--slow", of.emulates.slow}})
    if (!(value >= 0.01 && value <= 1e6))
      throw std::invalid_argument{std::string{name} + " " + std::to_string(value) +
                                  ": expected 0.01 to 1000000"};
}

}  // namespace

program::command_line<options> read_command_line(int argc, char const* const* argv) {
  auto chosen = options{};
  auto raw = raw_options{};
  auto scene = sim::scene_command_line{chosen.scene};
  auto app = CLI::App{detail::about, "fssdp_step"};
  app.get_formatter()->column_width(30);
  auto const footer = detail::footer();
  app.footer(footer);
  scene.declare_loads(app);
  scene.declare_process(app);
  scene.declare_scene(app, "What is measured (lists are combined, each with all)");
  scene.declare_groups(app);
  declare_policies(app, chosen, raw);
  declare_emulation(app, chosen, raw);
  declare_output(app, raw);
  return program::parse_arguments(app, argc, argv, chosen, [&] {
    scene.accept(app);
    take_over(raw, chosen);
    take_defaults_of_gpus(chosen, app);
    validate(chosen, app);
  });
}

}  // namespace step
