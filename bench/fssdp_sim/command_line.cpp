// SPDX-License-Identifier: Apache-2.0
// The options as CLI11 knows them.
#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "help.hpp"
#include "program/not_empty.hpp"
#include "program/number_like.hpp"
#include "program/parse_arguments.hpp"

namespace sim {
namespace {

/// What is not a plain number passes through these.
struct raw_options {
  std::string trace = {};
  std::vector<std::string> clusters = {"flat"};
  std::vector<std::string> models = {"gpt-moe-s"};
  std::vector<std::string> policies = {"all"};
  std::string goal = "time";
  std::string dump = {};
  std::string write_trace = {};
  std::int64_t stale = -1;
  int overlap = -1;
  bool json = false;
  bool csv = false;
};

[[nodiscard]] std::string list_of(auto const& all) {
  auto list = std::string{};
  for (auto const& one : all) list.append(list.empty() ? "" : ", ").append(one.name);
  return list;
}

/// What the names stand for; "all" stands for everything.
template <class All>
[[nodiscard]] auto chosen_from(std::string const& option, std::vector<std::string> const& names,
                               All const& all) {
  auto chosen = std::vector<typename All::value_type const*>{};
  for (auto const& name : names) {
    auto found = false;
    for (auto const& one : all) {
      if (name != "all" && one.name != name) continue;
      found = true;
      if (std::ranges::count(chosen, &one) == 0) chosen.push_back(&one);
    }
    if (!found)
      throw std::invalid_argument{option + " " + name + ": expected some of " + list_of(all) +
                                  ", or all"};
  }
  return chosen;
}

template <class Value>
CLI::Option* add(CLI::App& app, char const* group, char const* type, char const* name, Value& value,
                 std::string const& what) {
  auto* const option =
      app.add_option(name, value, what)->type_name(type)->group(group)->capture_default_str();
  if constexpr (std::is_integral_v<Value>)
    option->check(program::number_like<Value>("a whole number"));
  else if constexpr (std::is_floating_point_v<Value>)
    option->check(program::number_like<Value>("a number"));
  return option;
}
template <class Values>
CLI::Option* add_list(CLI::App& app, char const* group, char const* type, char const* name,
                      Values& values, std::string const& what) {
  auto* const option = add(app, group, type, name, values, what)->delimiter(',');
  using element = typename Values::value_type;
  if constexpr (std::is_integral_v<element>)
    option->check(program::number_like<element>("a whole number"));
  return option;
}

void declare_loads(CLI::App& app, options& chosen, raw_options& raw) {
  constexpr auto group = "Loads";
  add(app, group, "FILE", "--trace", raw.trace,
      "Loads as CSV: iter,layer,e0,e1,...; without it\na synthetic process")
      ->check(program::not_empty("a file"));
  add_list(app, group, "N,N", "--iters", chosen.iters, "Iterations that count; without it all");
  add(app, group, "N", "--stale", raw.stale,
      "Placements are made from loads of N iterations\nbefore; 0: the real ones. Without it: the "
      "mean\nof the last 5 samples, or 0 with --objective\nbalance")
      ->default_str("");
  add(app, group, "FILE", "--write-trace", raw.write_trace, "Write the loads into this file")
      ->check(program::not_empty("a file"));
}

void declare_process(CLI::App& app, options& chosen) {
  constexpr auto group = "The synthetic process";
  add(app, group, "N", "--seed", chosen.seed, "Equal seeds give equal loads");
  add(app, group, "N", "--iterations", chosen.iterations, "How many; they count from 1");
  add(app, group, "N", "--tokens", chosen.tokens, "Of one device, in an iteration");
  add(app, group, "N", "--layers", chosen.layers, "MoE layers; 0: as the model has");
  add(app, group, "N", "--experts", chosen.experts, "Of a layer; 0: as the model has");
  add(app, group, "X", "--zipf", chosen.zipf,
      "The n-th expert has 1 / n^X of the first one's\nload");
  add(app, group, "X", "--drift", chosen.drift, "A step of the walk of log(load)");
  add(app, group, "P", "--jumps", chosen.jumps,
      "Probability that two experts of a layer change\nplaces, in an iteration");
  add(app, group, "X", "--noise", chosen.noise, "Deviation of log(load) in an iteration alone");
}

void declare_scene(CLI::App& app, options& chosen, raw_options& raw) {
  constexpr auto group = "What is simulated; lists, each with every other";
  add_list(app, group, "NAME,...", "--cluster", raw.clusters, list_of(cluster_kinds));
  add_list(app, group, "N,...", "--devices", chosen.devices,
           "Without it: 32, or 64 of h100 and h200");
  add_list(app, group, "NAME,...", "--model", raw.models, "One of the models below, or all");
  add_list(app, group, "NAME,...", "--policy", raw.policies, "One of the policies below, or all");
  add(app, group, "N", "--slots", chosen.slots, "Replicas of a layer that a device has memory for");
  add(app, group, "N", "--overlap", raw.overlap,
      "Experts whose gathers a window hides (the paper's t);\nwithout it: what the attention "
      "before hides")
      ->default_str("");
  add(app, group, "NAME", "--objective", raw.goal,
      "time: placements are judged by the model;\nbalance: by the fullest device alone, as if "
      "links\nwere free");
}

void declare_output(CLI::App& app, options& chosen, raw_options& raw) {
  constexpr auto group = "Output";
  app.add_flag("--advise", chosen.advise,
               "Say whether replication pays, and with how\nmany slots; report loads")
      ->group(group);
  app.add_flag("--time", chosen.timed,
               "Measure solving and planning, too: columns more\nin the table and in JSON")
      ->group(group);
  app.add_flag("--json", raw.json, "Print JSON instead of a table")->group(group);
  app.add_flag("--csv", raw.csv, "Print CSV: a line per policy and layer")->group(group);
  app.add_option("--dump", raw.dump, "Write placements and routing, JSON line by line")
      ->check(program::not_empty("a file"))
      ->type_name("FILE")
      ->group(group);
}

void validate(options const& of, raw_options const& raw, CLI::App const& app) {
  auto const at_least = [](char const* name, auto value, auto least) {
    if (value < least)
      throw std::invalid_argument{std::string{name} + " " + std::to_string(value) + ": expected " +
                                  std::to_string(least) + " or more"};
  };
  at_least("--slots", of.slots, 0);
  at_least("--iterations", of.iterations, 1);
  at_least("--tokens", of.tokens, 1);
  at_least("--layers", of.layers, 0);
  at_least("--experts", of.experts, 0);
  auto const at_most = [](char const* name, auto value, decltype(value) most) {
    if (value > most)
      throw std::invalid_argument{std::string{name} + " " + std::to_string(value) +
                                  ": expected at most " + std::to_string(most)};
  };
  at_most("--iterations", of.iterations, 1'000'000);
  at_most("--layers", of.layers, 1 << 12);
  at_most("--experts", of.experts, 1 << 16);
  auto loads = 0.0;  // that the largest process has
  for (auto const* model : of.models)
    loads = std::max(loads, static_cast<double>(of.layers > 0 ? of.layers : model->layers) *
                                (of.experts > 0 ? of.experts : model->experts) * of.iterations);
  if (raw.trace.empty() && loads > 1e9)
    throw std::invalid_argument{
        "--iterations " + std::to_string(of.iterations) + ", --layers " +
        std::to_string(of.layers) + " and --experts " + std::to_string(of.experts) +
        ": expected at most 10^9 loads, which are iterations * layers * experts"};
  auto const within = [](char const* name, double value, double most) {
    if (!(value >= 0 && value <= most))
      throw std::invalid_argument{std::string{name} + " " + std::to_string(value) +
                                  ": expected 0 to " + std::to_string(most)};
  };
  within("--zipf", of.zipf, 10);
  within("--drift", of.drift, 1);
  within("--jumps", of.jumps, 1);
  within("--noise", of.noise, 1);
  if (app.count("--stale") > 0) at_least("--stale", raw.stale, std::int64_t{0});
  if (app.count("--overlap") > 0) at_least("--overlap", raw.overlap, 0);
  for (auto const iter : of.iters) at_least("--iters", iter, std::int64_t{0});
  for (auto const* kind : of.clusters)
    for (auto const devices : of.devices) static_cast<void>(make_cluster(*kind, devices));
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
  if (!raw.trace.empty())
    for (auto const* name : {"--seed", "--iterations", "--tokens", "--layers", "--experts",
                             "--zipf", "--drift", "--jumps", "--noise"})
      if (app.count(name) > 0)
        throw std::invalid_argument{std::string{name} +
                                    ": part of the synthetic process; expected no --trace"};
  if (!raw.write_trace.empty() &&
      of.clusters.size() * of.models.size() * std::max<std::size_t>(of.devices.size(), 1) > 1)
    throw std::invalid_argument{"--write-trace " + raw.write_trace +
                                ": expected one cluster and one model"};
}

void take_over(raw_options const& raw, options& chosen, CLI::App const& app) {
  chosen.trace = raw.trace;
  chosen.clusters = chosen_from("--cluster", raw.clusters, cluster_kinds);
  chosen.models = chosen_from("--model", raw.models, models);
  chosen.policies = chosen_from("--policy", raw.policies, policies);
  if (raw.goal != "time" && raw.goal != "balance")
    throw std::invalid_argument{"--objective " + raw.goal + ": expected time or balance"};
  chosen.goal = raw.goal == "time" ? objective::time : objective::balance;
  if (app.count("--stale") > 0) chosen.stale = raw.stale;
  if (app.count("--overlap") > 0) chosen.overlap = raw.overlap;
  chosen.form = raw.json ? output::json : raw.csv ? output::csv : output::table;
  chosen.dump = raw.dump;
  chosen.write_trace = raw.write_trace;
}

}  // namespace

program::command_line<options> read_command_line(int argc, char const* const* argv) {
  auto chosen = options{};
  auto raw = raw_options{};
  auto app = CLI::App{detail::about, "fssdp_sim"};
  app.get_formatter()->column_width(30);
  auto const footer = detail::footer();
  app.footer(footer);
  declare_loads(app, chosen, raw);
  declare_process(app, chosen);
  declare_scene(app, chosen, raw);
  declare_output(app, chosen, raw);
  return program::parse_arguments(app, argc, argv, chosen, [&] {
    take_over(raw, chosen, app);
    validate(chosen, raw, app);
  });
}

}  // namespace sim
