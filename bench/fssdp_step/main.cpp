// SPDX-License-Identifier: Apache-2.0
// Measures iterations of MoE training on emulated or real devices: fssdp_step --help
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "device_group.hpp"
#include "fssdp_sim/progress.hpp"
#include "fssdp_sim/scenarios.hpp"
#include "program/run_program.hpp"
#include "report.hpp"

namespace {

/// Prints where rank 0 is.
void print(step::device_group const& from, std::string const& text, std::FILE* to = stdout) {
  if (!from.has_rank_0()) return;
  std::fputs(text.c_str(), to);
  std::fflush(to);
}

/// The scenes that are measured. The first sample of a trace predicts itself: where there are
/// others, it does not count.
/// @param any_size a cluster like the one that is asked for, which processes may be any number of;
///        the scenes point to it
[[nodiscard]] std::deque<sim::prepared> scenes_of(step::options const& asked,
                                                  step::device_group const& devices,
                                                  sim::cluster_kind const& any_size) {
  auto scene = asked.scene;
  auto const shape = devices.nodes();
  if (shape.has_value()) {
    scene.devices = {shape->ranks};
    scene.clusters = {&any_size};
  }
  auto all = sim::prepare_all(scene);
  for (auto& one : all) {
    if (one.of.samples.size() > 1 && one.of.samples.front() == 0)
      one.of.samples.erase(one.of.samples.begin());
    if (!shape.has_value()) continue;
    auto const& kind = *one.where.kind;
    one.where.topology = fssdp::topology{{.nodes = shape->nodes,
                                          .ranks = shape->ranks,
                                          .ports = kind.ports,
                                          .network = kind.network}};
    if (!scene.overlap.has_value()) one.of.overlap = sim::hidden_experts(one.where);
  }
  return all;
}

/// A wire of that speed stands for the link of the cluster.
[[nodiscard]] step::emulation emulation_of(step::options const& asked, sim::setting const& where) {
  auto emulates = asked.emulates;
  if (asked.wire > 0)
    emulates.slow = where.kind->ports.between_bytes_per_second / (emulates.scale * asked.wire);
  return emulates;
}

/// What crosses between groups, every method on every wire; nothing, once, if there is one group.
[[nodiscard]] std::vector<std::optional<step::between_job>> all_between(step::options const& asked,
                                                                        sim::setting const& where) {
  if (asked.scene.between.groups == 1) return {std::nullopt};
  auto all = std::vector<std::optional<step::between_job>>{};
  for (auto const& of :
       sim::settings_of(asked.scene.between, where.kind->ports.between_bytes_per_second))
    all.push_back(step::between_job{.of = of});
  return all;
}

[[nodiscard]] std::unique_ptr<step::device_group> join(step::backend through,
                                                       std::chrono::milliseconds deadline) {
  switch (through) {
    case step::backend::mpi:
      return step::join_processes(deadline);
    case step::backend::cuda:
      return step::join_cuda(deadline);
    case step::backend::nccl:
      return step::join_nccl(deadline);
    default:
      return step::join_threads(deadline);
  }
}

void run(step::options const& asked) {
  auto const deadline = std::chrono::seconds{asked.deadline_seconds};
  auto const devices = join(asked.backend, deadline);
  auto any_size = *asked.scene.clusters.front();
  any_size.devices_on_a_node = 0;
  any_size.most_devices = 4096;
  auto const all = scenes_of(asked, *devices, any_size);
  auto steps = std::size_t{0};
  for (auto const& one : all) {
    auto const iterations = one.of.samples.size();
    auto const every = asked.scene.between.rhythm.sync_every;
    if (static_cast<std::size_t>(every) > iterations)
      throw std::invalid_argument{"--sync-every " + std::to_string(every) + ": expected at most " +
                                  std::to_string(iterations) +
                                  ", the iterations that are measured"};
    steps += (iterations + 1) * (asked.policies.size() + 1) * all_between(asked, one.where).size();
  }
  auto shown = sim::progress{steps};
  auto json = nlohmann::ordered_json::array();
  if (asked.form == sim::output::csv) print(*devices, step::csv_head());
  auto const measure = [&](sim::scenario const& of, step::policy const& which,
                           std::optional<step::between_job> const& between, bool is_last) {
    auto const name = std::string{of.where->kind->name} + " " + std::string{which.name};
    auto const what = step::job{.of = of,
                                .which = which,
                                .emulates = emulation_of(asked, *of.where),
                                .prefetch_distance = asked.prefetch_distance,
                                .interval = asked.interval,
                                .reshard_every = asked.reshard_every,
                                .plans_ahead = asked.plans_ahead,
                                .between = between,
                                .iteration_over = [&] { shown.step(name); }};
    return devices->measure(what, is_last ? asked.timeline : std::filesystem::path{});
  };
  auto const show = [&](sim::prepared const& one, std::optional<step::between_job> const& between,
                        bool is_first, bool ends) {
    auto const& ep_policy = step::policies.front();
    auto const ep = measure(one.of, ep_policy, between, false);
    if (asked.form == sim::output::table) {
      shown.clear();
      print(*devices, (is_first ? "" : "\n") +
                          step::table_head(one.of, asked, emulation_of(asked, one.where),
                                           devices->devices_for(one.where.topology.ranks()),
                                           between.has_value() ? &between->of : nullptr));
    }
    for (auto const* which : asked.policies) {
      auto const is_last = ends && which == asked.policies.back();
      auto const again = which != &ep_policy || (is_last && !asked.timeline.empty());
      auto const result = again ? measure(one.of, *which, between, is_last) : ep;
      shown.clear();
      if (!devices->has_rank_0()) continue;
      if (asked.form == sim::output::table) print(*devices, step::table_line(result, ep));
      if (asked.form == sim::output::csv) print(*devices, step::csv_line(result, ep));
      if (asked.form == sim::output::json) json.push_back(step::to_json(result, ep));
      if (!step::computes(asked.backend))
        print(*devices, step::warning_of(result),
              asked.form == sim::output::table ? stdout : stderr);
    }
  };
  for (auto const& one : all) {
    auto const crossings = all_between(asked, one.where);
    for (auto const& between : crossings)
      show(one, between, &one == &all.front() && &between == &crossings.front(),
           &one == &all.back() && &between == &crossings.back());
  }
  if (asked.form == sim::output::json) print(*devices, json.dump(1) + "\n");
}

}  // namespace

int main(int argc, char** argv) {
  return program::run_program({.name = "fssdp_step",
                               .exit_code_of_failure = 2,
                               .sizes = "expected a larger --scale, or fewer --layers, --experts "
                                        "or --devices"},
                              argc, argv, step::read_command_line, run);
}
