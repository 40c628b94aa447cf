// SPDX-License-Identifier: Apache-2.0
// The command line of fssdp_sim, its table, JSON, CSV and dump.
#include <algorithm>
#include <cstddef>
#include <deque>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp_sim/command_line.hpp"
#include "fssdp_sim/csv.hpp"
#include "fssdp_sim/dump.hpp"
#include "fssdp_sim/json.hpp"
#include "fssdp_sim/scenarios.hpp"
#include "fssdp_sim/show_advice.hpp"
#include "fssdp_sim/table.hpp"

namespace {

program::command_line<sim::options> read_sim(std::vector<char const*> arguments) {
  arguments.insert(arguments.begin(), "fssdp_sim");
  return sim::read_command_line(static_cast<int>(arguments.size()), arguments.data());
}
std::string sim_refusal(std::vector<char const*> const& arguments) {
  auto const line = read_sim(arguments);
  CHECK(!line.chosen.has_value());
  CHECK(line.exit_code == 2);
  return line.message;
}
bool says(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

/// The smallest cluster with nodes, and two layers.
std::deque<sim::prepared> small_scene(std::vector<char const*> more = {}) {
  auto arguments =
      std::vector<char const*>{"--cluster", "a", "--devices", "16",  "--layers",     "2",
                               "--experts", "8", "--tokens",  "100", "--iterations", "3"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return sim::prepare_all(read_sim(arguments).chosen.value());
}
/// The largest of what an owner has of any amount, over the mean.
double most_of(sim::owner_figures const& of) {
  return std::max({of.bytes_over_mean, of.step_cost_over_mean, of.load_over_mean});
}
sim::comparison small_result(sim::scenario const& of) {
  return {sim::simulate(sim::hecate, of), sim::simulate(sim::ep, of)};
}

std::vector<std::string> sim_lines(std::string const& text) {
  auto lines = std::vector<std::string>{};
  auto in = std::istringstream{text};
  for (auto line = std::string{}; std::getline(in, line);) lines.push_back(line);
  return lines;
}
std::vector<std::size_t> places_of(char what, std::string const& line) {
  auto places = std::vector<std::size_t>{};
  for (std::size_t i = 0; i < line.size(); ++i)
    if (line[i] == what) places.push_back(i);
  return places;
}

}  // namespace

TEST_CASE("lists of clusters, models and policies are split at commas") {
  auto const line = read_sim({"--cluster", "a,b", "--devices", "16,32", "--model", "all",
                              "--policy", "ep,hecate,ep", "--slots", "2", "--iters", "3,1",
                              "--stale", "10", "--objective", "balance", "--json"});
  REQUIRE(line.chosen.has_value());
  auto const& of = *line.chosen;
  CHECK(of.clusters.size() == 2);
  CHECK(of.devices == std::vector{16, 32});
  CHECK(of.models.size() == sim::models.size());
  CHECK(of.policies.size() == 2);
  CHECK(of.iters == std::vector<std::int64_t>{3, 1});
  CHECK(of.stale == 10);
  CHECK(of.goal == sim::objective::balance);
  CHECK(of.form == sim::output::json);
  CHECK(!of.overlap.has_value());
  CHECK(read_sim({}).chosen->policies.size() == sim::policies.size());
}

TEST_CASE("an option that cannot be simulated is an error that names it") {
  CHECK(says(sim_refusal({"--policy", "best"}), "--policy best: expected some of ep, fsdp"));
  CHECK(says(sim_refusal({"--model", "gpt"}), "--model gpt: expected some of gpt-moe-s"));
  CHECK(says(sim_refusal({"--cluster", "c"}), "--cluster c: expected some of flat, a, b"));
  CHECK(says(sim_refusal({"--cluster", "a", "--devices", "64"}),
             "--devices 64: cluster a has 1 to 32"));
  CHECK(
      says(sim_refusal({"--cluster", "h100", "--devices", "12"}), "expected a multiple of the 8"));
  CHECK(says(sim_refusal({"--devices", "0"}), "--devices 0"));
  CHECK(says(sim_refusal({"--slots", "-1"}), "--slots -1: expected 0 or more"));
  CHECK(says(sim_refusal({"--slots", "x"}), "--slots: x: expected a whole number"));
  CHECK(says(sim_refusal({"--devices", "16,many"}), "--devices: many: expected a whole number"));
  CHECK(says(sim_refusal({"--zipf", "1.x"}), "--zipf: 1.x: expected a number"));
  CHECK(says(sim_refusal({"--advise", "--slots", "2"}), "--advise --slots: it tries"));
  CHECK(says(sim_refusal({"--advise", "--policy", "ep"}), "--advise --policy: it tries"));
  CHECK(says(sim_refusal({"--time", "--csv"}), "--time --csv"));
  CHECK(says(sim_refusal({"--stale", "-1"}), "--stale -1: expected 0 or more"));
  CHECK(says(sim_refusal({"--overlap", "-2"}), "--overlap -2: expected 0 or more"));
  CHECK(says(sim_refusal({"--objective", "speed"}), "--objective speed: expected time or balance"));
  CHECK(says(sim_refusal({"--iters", "1,x"}), "--iters"));
  CHECK(says(sim_refusal({"--json", "--csv"}), "--json --csv: expected one of them"));
  CHECK(says(sim_refusal({"--trace", "x.csv", "--seed", "2"}), "--seed: part of the synthetic"));
  CHECK(says(sim_refusal({"--jumps", "2"}), "--jumps 2"));
  CHECK(says(sim_refusal({"--experts", "2147483647"}), "--experts 2147483647: expected at most"));
  CHECK(says(sim_refusal({"--layers", "2147483647"}), "--layers 2147483647: expected at most"));
  CHECK(says(sim_refusal({"--iterations", "2147483647"}), "--iterations 2147483647: expected"));
  CHECK(says(sim_refusal({"--iterations", "1000000", "--layers", "4096"}), "at most 10^9 loads"));
  for (auto const* name : {"--trace", "--dump", "--write-trace"})
    CHECK(says(sim_refusal({name, ""}), std::string{name} + ": '': expected a file"));
  CHECK(says(sim_refusal({"--advise", "--write-trace", "x.csv"}), "--write-trace: expected one"));
}

TEST_CASE("help explains policies, clusters, models and columns") {
  auto const line = read_sim({"--help"});
  CHECK(line.exit_code == 0);
  for (auto const* word : {"--advise", "V100, 50 TFLOP/s", "deepseek-v3", "idealized", "max/mean",
                           "fssdp_sim --cluster a,b"})
    CHECK(says(line.message, word));
  for (auto const& one : sim::policies) CHECK(says(line.message, std::string{one.about}));
}

TEST_CASE("iterations that a trace lacks are an error that lists those that it has") {
  CHECK_THROWS_WITH(small_scene({"--iters", "1,7"}),
                    "--iters 7: there are no loads of this iteration; expected some of 1, 2, 3");
  CHECK(small_scene({"--iters", "3,1,3"}).front().of.samples == std::vector<std::size_t>{0, 2});
}

TEST_CASE("iterations without a token are refused, layers without one are not") {
  auto trace = sim::load_trace{{.iter = 1, .layers = {{0, 0}, {0, 0}}},
                               {.iter = 2, .layers = {{0, 0}, {5, 600}}}};
  CHECK_THROWS_WITH(sim::detail::require_tokens(trace, {0}),
                    "--iters 1: all loads are zero; expected an iteration that routes tokens");
  CHECK_NOTHROW(sim::detail::require_tokens(trace, {0, 1}));
}

TEST_CASE("more slots than experts are as many as experts") {
  CHECK(small_scene({"--slots", "100000000"}).front().of.slots ==
        small_scene().front().where.experts);
}

TEST_CASE("the paper takes 32 experts on 16 devices, and 64 on 32") {
  for (auto const& [devices, experts] : {std::pair{"16", 32}, {"32", 64}}) {
    auto const all = sim::prepare_all(
        read_sim({"--cluster", "a", "--devices", devices, "--iterations", "1"}).chosen.value());
    CHECK(all.front().where.experts == experts);
    CHECK(all.front().where.tokens_per_device == Approx(8192));
  }
}

TEST_CASE("with many devices and experts only some layers and iterations are simulated") {
  auto const kept = sim::detail::affordable(4096, 512, 58, 20, true);
  CHECK(kept.layers == 2);
  CHECK(kept.samples == 2);
  CHECK(sim::detail::affordable(4096, 512, 58, 20, false).samples == 20);
  CHECK(sim::detail::affordable(32, 64, 12, 20, true).layers == 12);
  auto const scene =
      sim::prepare_all(read_sim({"--devices", "4096", "--experts", "512", "--iterations", "1",
                                 "--layers", "9", "--write-trace", "loads.csv"})
                           .chosen.value());
  CHECK(sim::layer_count(scene.front().loads) == 3);
  CHECK(sim::layer_count(scene.front().all_loads) == 9);
  auto const trace = sim::thin_layers({{1, {{1}, {2}, {3}, {4}}}}, 2);
  CHECK(trace.front().layers == std::vector<fssdp::expert_loads>{{1}, {3}});
}

TEST_CASE("the JSON of a policy has all fields") {
  auto const scene = small_scene();
  auto const one = small_result(scene.front().of);
  auto const written = sim::to_json(one);
  for (auto const* field :
       {"policy", "model", "cluster", "devices", "speedup_over_ep", "layer_speedup_over_ep",
        "load_max_over_mean", "load_p95", "exposed_us", "bytes", "interface_bytes", "memory_bytes"})
    CHECK(written.contains(field));
  CHECK(!written.contains("solving_us"));
  CHECK(written["policy"] == "hecate");
  CHECK(written["model"] == "gpt-moe-s");
  CHECK(written["cluster"] == "a");
  CHECK(written["devices"] == 16);
  CHECK(written["speedup_over_ep"].get<double>() == Approx(one.ep.seconds() / one.of.seconds()));
  CHECK(written["iteration_us"].get<double>() ==
        Approx(written["non_moe_us"].get<double>() + written["compute_us"].get<double>() +
               written["tokens_us"].get<double>() + written["exposed_us"].get<double>()));
}

TEST_CASE("columns of the table stand below their names") {
  auto const scene = small_scene();
  auto const head = sim_lines(sim::table_head(scene.front().of));
  auto const line = sim_lines(sim::table_line(small_result(scene.front().of))).front();
  CHECK(places_of('|', line) == places_of('|', head.back()));
  CHECK(line.size() == head.back().size());
  CHECK(head[head.size() - 2].size() == line.size());
}

TEST_CASE("measured times have their own columns") {
  auto const scene = small_scene({"--time"});
  auto const& of = scene.front().of;
  auto const one = small_result(of);
  CHECK(one.of.solving_seconds.size() == 2 * 3);
  CHECK(sim::percentile(one.of.solving_seconds, 0) > 0);
  CHECK(sim::percentile(one.of.planning_seconds, 0) > 0);
  auto const head = sim_lines(sim::table_head(of)).back();
  auto const line = sim_lines(sim::table_line(one)).front();
  CHECK(places_of('|', line) == places_of('|', head));
  CHECK(line.size() == head.size());
  CHECK(sim::to_json(one).contains("solving_us"));
  CHECK(sim::to_json(one).contains("planning_us"));
}

TEST_CASE("the CSV has as many cells in every line") {
  auto const scene = small_scene();
  auto const cells = places_of(',', sim::csv_head()).size();
  auto const lines = sim_lines(sim::csv_lines(small_result(scene.front().of)));
  CHECK(lines.size() == 3);
  for (auto const& line : lines) CHECK(places_of(',', line).size() == cells);
  CHECK(says(lines[0], "a,16,gpt-moe-s,hecate,all,"));
  CHECK(says(lines[2], "a,16,gpt-moe-s,hecate,1,"));
}

TEST_CASE("a dump has owners, holders and senders, and the loads can be computed from it") {
  auto const scene = small_scene();
  auto const& of = scene.front().of;
  auto lines = 0;
  static_cast<void>(sim::simulate(sim::hecate, of, [&](sim::layer_record const& at) {
    ++lines;
    auto const written = sim::to_json(sim::hecate, of, at);
    CHECK(written["owners"].size() == 8);
    auto on = fssdp::expert_loads(16);
    auto sum = std::uint64_t{0};
    for (auto const& flow : written["routing"]) {
      auto const& holders = written["holders"][flow[1].get<std::size_t>()];
      CHECK(std::ranges::count(holders, flow[2]) == 1);
      on[flow[2].get<std::size_t>()] += flow[3].get<std::uint64_t>();
      sum += flow[3].get<std::uint64_t>();
    }
    CHECK(sum == 100 * 2 * 16);
    CHECK(written["max_over_mean"].get<double>() == Approx(fssdp::max_over_mean(on)));
  }));
  CHECK(lines == 2 * 3);
}

TEST_CASE("advice is printed in words and in JSON") {
  auto const scene = small_scene();
  auto const found = sim::advise(
      scene.front().of, [](auto const& which, auto const& of) { return sim::simulate(which, of); });
  auto const text = sim::to_text(found, scene.front().of);
  CHECK(says(text, "Replication"));
  CHECK(says(text, "devices before, max / mean"));
  auto const written = sim::to_json(found);
  CHECK(written["pays"].get<bool>() == found.pays());
  CHECK(written["by_slots"].size() == sim::slots_to_try(8).size());
  CHECK(written["loads"]["devices_after"]["max"].get<double>() >=
        written["loads"]["devices_after"]["p50"].get<double>());
}

TEST_CASE("advice plans owners for the experts of all layers, and for matrices") {
  auto const scene = small_scene();
  auto const& of = scene.front().of;
  auto const owners = sim::plan_owners(of);
  CHECK(owners.experts == 2 * 8);
  CHECK(owners.matrices == 2 * 4);  // of attention; this model has nothing else
  auto const& model = *of.where->model;
  auto const parameters = 2 * (8 * sim::expert_parameters(model) + model.attention_parameters);
  CHECK(owners.bytes == Approx(14 * parameters));
  // 8 experts on 16 devices, 2 layers: in blocks, half of the devices have two and others none
  CHECK(static_cast<double>(owners.blocks.most.bytes) >= 2 * 14 * sim::expert_parameters(model));
  CHECK(most_of(owners.planned) < most_of(owners.blocks));
  CHECK(owners.plan.owners.size() == owners.experts + owners.matrices);
  CHECK(owners.plan.moved_bytes > 0);
  CHECK(owners.plan.moved_bytes < static_cast<std::uint64_t>(owners.bytes));
  CHECK(owners.plan.fullness >= most_of(owners.planned) * (1 - 1e-9));
  CHECK(owners.plan.fullness >= owners.plan.bound);
}

TEST_CASE("owners of a model with shared experts and dense layers count these, too") {
  auto const scene = small_scene({"--model", "deepseek-v3"});
  auto const owners = sim::plan_owners(scene.front().of);
  CHECK(owners.matrices == 2 * (4 + 3) + 3 * (4 + 3));
  CHECK(sim::detail::orthogonalization_flops(2, 3) == 5 * (4 * 4 * 3 + 2 * 8));
  CHECK(sim::detail::orthogonalization_flops(3, 2) == 5 * (4 * 4 * 3 + 2 * 8));
}

TEST_CASE("owners are part of the advice in words and in JSON") {
  auto const scene = small_scene();
  auto const found = sim::advise(
      scene.front().of, [](auto const& which, auto const& of) { return sim::simulate(which, of); });
  CHECK(says(sim::to_text(found, scene.front().of), "ownership_planner"));
  auto const written = sim::to_json(found)["owners"];
  CHECK(written["experts"].get<std::size_t>() == 16);
  CHECK(written["moved_bytes"].get<std::uint64_t>() == found.owners.plan.moved_bytes);
  CHECK(written["planned"]["load_over_mean"].get<double>() <
        written["blocks"]["load_over_mean"].get<double>());
}
