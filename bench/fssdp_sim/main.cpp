// SPDX-License-Identifier: Apache-2.0
// Simulates iterations of MoE training under placement policies: fssdp_sim --help
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "between_result.hpp"
#include "command_line.hpp"
#include "comparison.hpp"
#include "csv.hpp"
#include "dump.hpp"
#include "json.hpp"
#include "program/run_program.hpp"
#include "program/write_file.hpp"
#include "progress.hpp"
#include "scenarios.hpp"
#include "show_advice.hpp"
#include "show_between.hpp"
#include "simulate.hpp"
#include "table.hpp"
#include "write_loads.hpp"

namespace {

void print(std::string const& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

/// Simulates one policy, with a step of progress per layer.
sim::policy_result play(sim::policy const& which, sim::scenario const& of, sim::progress& shown,
                        sim::dump_file* dump) {
  auto const name = std::string{of.where->model->name} + " " + std::string{which.name};
  return sim::simulate(which, of, [&](sim::layer_record const& at) {
    if (dump != nullptr) dump->write(which, of, at);
    shown.step(name);
  });
}

/// The result of a policy, in one group or in each of several.
void show(sim::comparison const& result, sim::policy const& which, sim::setting const& where,
          sim::options const& asked, nlohmann::ordered_json& json) {
  if (asked.between.groups == 1) {
    if (asked.form == sim::output::table) print(sim::table_line(result));
    if (asked.form == sim::output::csv) print(sim::csv_lines(result));
    if (asked.form == sim::output::json) json.push_back(sim::to_json(result));
    return;
  }
  for (auto const& of :
       sim::settings_of(asked.between, where.kind->ports.between_bytes_per_second)) {
    auto const between = sim::result_between(result, which, where, of);
    if (asked.form == sim::output::table) print(sim::table_line(between));
    if (asked.form == sim::output::csv) print(sim::csv_line(between));
    if (asked.form == sim::output::json) json.push_back(sim::to_json(between));
  }
}

void compare(sim::options const& asked) {
  auto const all = sim::prepare_all(asked);
  if (!asked.write_trace.empty())
    program::write_file(asked.write_trace, sim::to_csv(all.front().all_loads));
  auto dump = std::optional<sim::dump_file>{};
  if (!asked.dump.empty()) dump.emplace(asked.dump);
  auto steps = std::size_t{0};
  for (auto const& one : all)
    steps += one.of.samples.size() * one.of.layer_ids.size() * (asked.policies.size() + 1);
  auto shown = sim::progress{steps};
  auto json = nlohmann::ordered_json::array();
  auto const groups = asked.between.groups > 1;
  if (asked.form == sim::output::csv) print(groups ? sim::between_csv_head() : sim::csv_head());
  for (auto const& one : all) {
    auto const asked_ep = std::ranges::count(asked.policies, sim::ep.name, &sim::policy::name) > 0;
    auto const base = play(sim::ep, one.of, shown, asked_ep && dump ? &*dump : nullptr);
    if (asked.form == sim::output::table) {
      shown.clear();
      print((&one == &all.front() ? "" : "\n") +
            (groups ? sim::between_table_head(one.of, asked.between) : sim::table_head(one.of)));
    }
    for (auto const* which : asked.policies) {
      auto const result = sim::comparison{
          which->name == sim::ep.name ? base : play(*which, one.of, shown, dump ? &*dump : nullptr),
          base};
      shown.clear();
      show(result, *which, one.where, asked, json);
    }
  }
  if (dump.has_value()) dump->close();
  if (asked.form == sim::output::json) print(json.dump(1) + "\n");
}

void advise(sim::options const& asked) {
  auto const all = sim::prepare_all(asked);
  auto steps = std::size_t{0};
  for (auto const& one : all)
    steps += one.of.samples.size() * one.of.layer_ids.size() *
             (sim::slots_to_try(one.where.experts).size() + 1);
  auto shown = sim::progress{steps};
  auto json = nlohmann::ordered_json::array();
  for (auto const& one : all) {
    auto const found = sim::advise(one.of, [&](sim::policy const& which, sim::scenario const& of) {
      return play(which, of, shown, nullptr);
    });
    shown.clear();
    if (asked.form == sim::output::json)
      json.push_back(sim::to_json(found));
    else
      print((&one == &all.front() ? "" : "\n") + sim::to_text(found, one.of));
  }
  if (asked.form == sim::output::json) print(json.dump(1) + "\n");
}

void run(sim::options const& asked) { asked.advise ? advise(asked) : compare(asked); }

}  // namespace

int main(int argc, char** argv) {
  return program::run_program({.name = "fssdp_sim",
                               .exit_code_of_failure = 2,
                               .sizes = "expected fewer --iterations, --layers, --experts or "
                                        "--devices"},
                              argc, argv, sim::read_command_line, run);
}
