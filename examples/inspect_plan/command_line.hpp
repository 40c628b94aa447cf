// SPDX-License-Identifier: Apache-2.0
/// The command line of inspect_plan.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "help.hpp"
#include "options.hpp"
#include "program/not_empty.hpp"
#include "program/parse_arguments.hpp"

namespace inspect {

namespace detail {

/// What is not a plain number passes through these.
struct raw_options {
  std::string of_case = std::string{cases::name_of(options{}.of_case)};
  std::string plan = std::string{name_of(options{}.plan)};
  std::string nic_per = "rank";
  std::vector<double> latency = {options{}.link_latency, options{}.nic_latency};
  std::string svg = {};
};

template <class Value>
CLI::Option* add(CLI::App& app, char const* group, char const* type, char const* name, Value& value,
                 char const* what) {
  return app.add_option(name, value, what)->type_name(type)->group(group)->capture_default_str();
}
template <class Names>
void add_choice(CLI::App& app, char const* group, char const* name, std::string& value,
                Names const& names, char const* what) {
  add(app, group, "NAME", name, value, what)
      ->check(CLI::IsMember(std::vector<std::string>(names.begin(), names.end())).description(""));
}

inline void declare_topology(CLI::App& app, options& chosen, raw_options& raw) {
  constexpr auto topo = "The topology";
  add(app, topo, "N", "--ranks", chosen.ranks, "Number of ranks, each with a device of its own");
  add(app, topo, "N", "--nodes", chosen.nodes, "Nodes that the ranks are on");
  add(app, topo, "B/S", "--link-bandwidth", chosen.link_bandwidth,
      "Bytes per second that a rank sends inside its\nnode; it receives as many at the same time");
  add(app, topo, "B/S", "--nic-bandwidth", chosen.nic_bandwidth,
      "The same for an interface to other nodes");
  add_choice(app, topo, "--nic-per", raw.nic_per, std::array<std::string_view, 2>{"node", "rank"},
             "What has an interface to other nodes: every\nnode or every rank");
  add(app, topo, "S,S", "--latency", raw.latency, "Seconds inside a node and between nodes")
      ->delimiter(',')
      ->expected(2);
}

inline void declare_case(CLI::App& app, options& chosen, raw_options& raw) {
  constexpr auto group = "Who holds what";
  add_choice(app, group, "--case", raw.of_case, cases::case_names,
             "pairs, hot, zipf, hot-node or random: see below");
  add(app, group, "N", "--experts", chosen.experts, "Experts; 0: two for each rank");
  add(app, group, "N", "--seed", chosen.seed, "Seed of the random cases");
  app.add_option("--bytes", chosen.bytes, "Bytes of one expert: 4096, 256K, 16M")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->type_name("SIZE")
      ->group(group)
      ->default_str("4M");
}

inline void declare_plan(CLI::App& app, options& chosen, raw_options& raw) {
  constexpr auto group = "The plan";
  add_choice(app, group, "--plan", raw.plan, plan_names, "scheduled, chain or direct: see below");
  app.add_option("--piece-bytes", chosen.piece_bytes,
                 "Size of the pieces of a scheduled plan, about;\n0: the best size that it finds")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->type_name("SIZE")
      ->group(group)
      ->default_str("0");
  app.add_option(
         "--relay-bytes", chosen.relay_bytes,
         "Memory that a rank may use for pieces that it\nonly passes on; 0: no rank relays; "
         "by default\nthere is no limit")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->type_name("SIZE")
      ->group(group);
}

inline void declare_output(CLI::App& app, options& chosen, raw_options& raw) {
  constexpr auto group = "Output";
  add(app, group, "N", "--lines", chosen.lines, "How many transfers the table lists");
  app.add_flag("--all", chosen.all, "List all transfers")->group(group);
  app.add_flag("--json", chosen.json, "Print JSON instead of text")->group(group);
  app.add_option("--svg", raw.svg, "Also draw the plan, into this file")
      ->check(program::not_empty("a file"))
      ->type_name("FILE")
      ->group(group);
}

inline void take_over(raw_options const& raw, options& chosen) {
  chosen.of_case = cases::case_named(raw.of_case).value();
  auto const plan = std::find(plan_names.begin(), plan_names.end(), raw.plan);
  chosen.plan = static_cast<plan_kind>(plan - plan_names.begin());
  chosen.nic_per = raw.nic_per == "node" ? fssdp::network_interface::per_node
                                         : fssdp::network_interface::per_rank;
  chosen.link_latency = raw.latency.at(0);
  chosen.nic_latency = raw.latency.at(1);
  chosen.svg = raw.svg;
}

}  // namespace detail

/// Reads and validates the arguments; prints nothing.
[[nodiscard]] inline program::command_line<options> read_command_line(int argc,
                                                                      char const* const* argv) {
  auto chosen = options{};
  auto raw = detail::raw_options{};
  auto app = CLI::App{detail::about, "inspect_plan"};
  app.get_formatter()->column_width(30);
  app.footer(detail::footer);
  detail::declare_topology(app, chosen, raw);
  detail::declare_case(app, chosen, raw);
  detail::declare_plan(app, chosen, raw);
  detail::declare_output(app, chosen, raw);
  return program::parse_arguments(app, argc, argv, chosen, [&] {
    detail::take_over(raw, chosen);
    validate(chosen);
  });
}

}  // namespace inspect
