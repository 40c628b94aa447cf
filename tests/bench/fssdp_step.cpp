// SPDX-License-Identifier: Apache-2.0
/// fssdp_step: every policy runs, finds its bytes in order and is predicted by the costs of
/// fssdp_sim; its command line, table and JSON.
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "fssdp/placement/port_loads.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/planner.hpp"
#include "fssdp/plan/simulate.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "fssdp/solver/materialization_budget.hpp"
#include "fssdp_sim/policies/policies.hpp"
#include "fssdp_sim/scenarios.hpp"
#include "fssdp_sim/split_loads.hpp"
#include "fssdp_step/command_line.hpp"
#include "fssdp_step/contents.hpp"
#include "fssdp_step/device_group.hpp"
#include "fssdp_step/expert_shape.hpp"
#include "fssdp_step/host_memory.hpp"
#include "fssdp_step/iteration_model.hpp"
#include "fssdp_step/message_costs.hpp"
#include "fssdp_step/planning_times.hpp"
#include "fssdp_step/prediction.hpp"
#include "fssdp_step/predictors.hpp"
#include "fssdp_step/report.hpp"
#include "fssdp_step/shared_answers.hpp"

namespace {

using namespace std::chrono_literals;

program::command_line<step::options> read_step(std::vector<char const*> arguments) {
  arguments.insert(arguments.begin(), "fssdp_step");
  return step::read_command_line(static_cast<int>(arguments.size()), arguments.data());
}
std::string step_refusal(std::vector<char const*> const& arguments) {
  auto const line = read_step(arguments);
  CHECK(!line.chosen.has_value());
  CHECK(line.exit_code == 2);
  return line.message;
}
bool mentions_all(std::string const& text, std::vector<std::string> const& parts) {
  for (auto const& part : parts)
    if (text.find(part) == std::string::npos) {
      UNSCOPED_INFO("not found: " << part);
      return false;
    }
  return true;
}

/// Two nodes of eight devices, two layers, small enough for any machine.
struct small_steps {
  step::options asked;
  std::deque<sim::prepared> scenes;

  explicit small_steps(std::vector<char const*> more = {}) {
    auto arguments =
        std::vector<char const*>{"--cluster", "a",    "--devices", "16",  "--layers",     "2",
                                 "--experts", "16",   "--tokens",  "128", "--iterations", "4",
                                 "--scale",   "1536", "--slow",    "1",   "--overlap",    "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    asked = read_step(arguments).chosen.value();
    scenes = sim::prepare_all(asked.scene);
    scenes.front().of.samples.erase(scenes.front().of.samples.begin());
  }
  [[nodiscard]] sim::scenario const& of() const { return scenes.front().of; }
  [[nodiscard]] step::job job(step::policy const& which) const {
    return {.of = of(),
            .which = which,
            .emulates = asked.emulates,
            .prefetch_distance = asked.prefetch_distance,
            .interval = 2,
            .reshard_every = asked.reshard_every};
  }
  [[nodiscard]] step::measurement measured(step::policy const& which) const {
    return step::join_threads(60s)->measure(job(which), {});
  }
};

[[nodiscard]] step::policy const& policy_named(std::string_view name) {
  return *std::ranges::find(step::policies, name, &step::policy::name);
}

}  // namespace

TEST_CASE("every policy runs its iterations, and all bytes are the right ones") {
  auto const small = small_steps{};
  for (auto const& which : step::policies) {
    CAPTURE(which.name);
    auto const of = small.measured(which);
    REQUIRE(of.iterations.size() == 3);
    for (auto const& one : of.iterations) {
      CHECK(one.seconds > 0);
      CHECK(one.exposed_seconds >= 0);
      CHECK(one.token_seconds > 0);
    }
    CHECK(of.policy == which.name);
    CHECK(of.devices == 16);
    CHECK(of.layers == 2);
    CHECK(of.predicted_seconds > 0);
    CHECK(of.max_over_mean >= 1);
    CHECK(of.bytes > 0);
    auto const expert = static_cast<double>(small.of().where->rates.expert_bytes);
    CHECK(of.replica_bytes <= 2 * 16 * expert);
    if (which.name == "ep") CHECK(of.replica_bytes == 0);
    if (which.name == "fsdp" || which.name == "hecate") CHECK(of.replica_bytes > 0);
  }
}

TEST_CASE("ours-hidden gathers only what the windows hide, where ours gathers what pays") {
  auto const small = small_steps{};
  auto const& of = small.of();
  auto const owners = fssdp::as_table(fssdp::block_layout{{.experts = 16, .ranks = 16}});
  auto const loads =
      fssdp::expert_loads{90'000, 50'000, 30'000, 20'000, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  auto const counts = sim::split_loads(loads, 16);
  auto rates = of.where->rates;
  rates.window_seconds = 1.5 * static_cast<double>(rates.expert_bytes) /
                         fssdp::node_bandwidth(of.where->topology, fssdp::node_id{0});
  auto const question = sim::layer_question{.topology = &of.where->topology,
                                            .rates = rates,
                                            .owners = &owners,
                                            .predicted = &loads,
                                            .counts = &counts,
                                            .slots = 4,
                                            .overlap = 2};
  auto const budget = fssdp::hidden_budget(rates, of.where->topology, 16, 4);
  auto const ports_of = [&](char const* policy) {
    return fssdp::port_loads{policy_named(policy).places(question, nullptr), owners,
                             of.where->topology};
  };
  CAPTURE(budget.experts_in, budget.experts_out);
  CHECK(budget.allows(ports_of("ours-hidden")));
  CHECK_FALSE(budget.allows(ports_of("ours")));
}

TEST_CASE("runs with new owners, other prefetch distances and no planning ahead are right, too") {
  for (auto const* ahead : {"0", "2"}) {
    auto const small = small_steps{{"--reshard-every", "2", "--prefetch", ahead}};
    for (auto const* name : {"hecate", "hecate-rm", "ours"}) {
      CAPTURE(ahead, name);
      auto job = small.job(policy_named(name));
      job.plans_ahead = false;
      CHECK(step::join_threads(60s)->measure(job, {}).iterations.size() == 3);
    }
  }
}

TEST_CASE("predictions have the costs of fssdp_sim where the runtime places as it does") {
  auto const small = small_steps{};
  auto const& where = *small.of().where;
  auto const rank = fssdp::rank_id{0};
  auto const shape = step::iteration_shape{
      .dense_seconds = where.non_moe_seconds / 3 / where.layers,
      .counts_seconds = step::counts_seconds(where.topology, rank, 16 * sizeof(std::uint64_t)),
      .message_seconds = step::message_seconds(where.topology, rank),
      .token_messages = 15};
  for (auto const& [name, simulated] :
       {std::pair{"ep", sim::ep}, std::pair{"fsdp", sim::fsdp}, std::pair{"hecate", sim::hecate},
        std::pair{"hecate-rm", sim::hecate_rm}}) {
    CAPTURE(name);
    auto const job = small.job(policy_named(name));
    auto const links = job.emulates.links(where.topology);
    auto layers = std::vector<step::layer_costs>{};
    auto seconds = 0.0;
    auto const expected = sim::simulate(simulated, small.of(), [&](sim::layer_record const& one) {
      auto const plan = fssdp::make_requested_plan(
          {.layout = one.answer.owners,
           .where = one.answer.where,
           .topology = links,
           .chunk_bytes = sizeof(float) * step::expert_elements(job, 1),
           .schedule = fssdp::schedule_options{.least_bytes = job.emulates.bytes(256U << 10),
                                               .effort = job.effort}});
      layers.push_back(
          {.experts = one.figures.experts,
           .gather = step::move_of(plan, &fssdp::transfer::destination, job),
           .reduction = step::move_of(plan.reduction(), &fssdp::transfer::source, job)});
      if (layers.size() < static_cast<std::size_t>(where.layers)) return;
      seconds += step::iteration_seconds(layers, shape, simulated.costs.often);
      layers.clear();
    });
    auto const of = small.measured(policy_named(name));
    auto const planned_ahead = of.predicted_seconds - of.predicted_planning_seconds;
    CHECK(planned_ahead == Approx(seconds / static_cast<double>(small.of().samples.size())));
    CHECK(of.max_over_mean == Approx(sim::mean(expected.max_over_mean)));
    auto const messages = where.layers * (4 * shape.message_seconds + shape.counts_seconds);
    if (of.policy == "ep") CHECK(planned_ahead == Approx(expected.seconds() + messages));
  }
}

TEST_CASE("a plan takes as long as on ideal ports, without the factor of an emulation") {
  auto const small = small_steps{};
  auto job = small.job(policy_named("fsdp"));
  job.emulates.slow = 3;
  auto const owners = fssdp::as_table(fssdp::block_layout{{.experts = 16, .ranks = 16}});
  auto const plan = fssdp::make_plan(owners, fssdp::everywhere{}(owners),
                                     job.emulates.links(job.of.where->topology));
  auto const bytes = sizeof(float) * step::expert_elements(job, 1);
  auto const gather = step::move_of(plan, &fssdp::transfer::destination, job);
  CHECK(gather.seconds == Approx(fssdp::simulate(plan, bytes).seconds / 3));
  CHECK(gather.messages == 15 * static_cast<std::size_t>(plan.pieces()));
  CHECK(step::move_of(plan, &fssdp::transfer::source, job).messages >= gather.messages);
}

TEST_CASE("an exception on a device ends the measurement at once") {
  auto const small = small_steps{};
  auto job = small.job(policy_named("ours"));
  auto calls = 0;
  job.iteration_over = [&] {
    if (++calls == 2) throw std::runtime_error{"enough"};
  };
  REQUIRE_THROWS_WITH(step::join_threads(60s)->measure(job, {}), "enough");
}

TEST_CASE("wrong parameters and wrong rows are found") {
  auto const numbers = std::vector<float>{3, 3, 3};
  CHECK_NOTHROW(step::require_all("gradients", fssdp::expert_id{2}, numbers, 3));
  CHECK_THROWS_WITH(step::require_all("gradients", fssdp::expert_id{2}, numbers, 4),
                    Catch::Contains("gradients of expert 2: 3") && Catch::Contains("expected 4"));
  auto const segments =
      std::vector<fssdp::token_segment>{{fssdp::expert_id{0}, fssdp::rank_id{1}, 0, 2},
                                        {fssdp::expert_id{1}, fssdp::rank_id{1}, 2, 1}};
  auto const rows = step::marked_rows{4};
  auto const mine = [](auto const&) { return fssdp::rank_id{5}; };
  auto memory = step::host_memory{};
  auto bytes = std::vector<std::uint8_t>(12);
  rows.write(memory, bytes, segments, mine, 0);
  CHECK_NOTHROW(rows.check(bytes, segments, mine, 0));
  CHECK_THROWS_AS(rows.check(bytes, segments, mine, 1), std::runtime_error);
  auto const other = [](auto const&) { return fssdp::rank_id{6}; };
  CHECK_THROWS_AS(rows.check(bytes, segments, other, 0), std::runtime_error);
  ++bytes[11];
  CHECK_THROWS_AS(rows.check(bytes, segments, mine, 0), std::runtime_error);
  auto const large = std::vector<float>{1, 2, 3, 4, 5};
  CHECK(step::samples_of(memory, large) == std::array<float, 3>{1, 3, 5});
}

TEST_CASE("a result that all devices need is computed once, by the next device if that fails") {
  auto answers = step::shared_answers<int, int>{2};
  auto calls = std::atomic<int>{0};
  auto failures = std::atomic<int>{0};
  auto wrong = std::atomic<int>{0};
  auto threads = std::vector<std::jthread>{};
  for (int n = 0; n < 4; ++n)
    threads.emplace_back([&] {
      for (int key = 0; key < 50; ++key) try {
          auto const answer = answers(key, [&] {
            if (calls++ == 7) throw std::runtime_error{"not now"};
            return key * key;
          });
          if (answer.value != key * key || answer.seconds < 0) ++wrong;
        } catch (std::runtime_error const&) {
          ++failures;
          --key;
        }
    });
  threads.clear();
  CHECK(wrong == 0);
  CHECK(failures == 1);
  CHECK(calls >= 51);
}

TEST_CASE(
    "the time of a plan counts for the layer that has its placement, once, in its iteration") {
  auto times = step::planning_times{};
  auto const layout = fssdp::as_table(fssdp::block_layout{{.experts = 4, .ranks = 2}});
  auto const owners = fssdp::placement{layout};
  auto const all = fssdp::everywhere{}(layout);
  times.begin();
  times.add_plan(owners, 0.5);  // on the caller's thread
  CHECK(times.take_plan(owners) == 0);
  CHECK(times.on_caller() == 0.5);
  std::jthread{[&] {
    times.add_plan(owners, 1), times.add_plan(all, 2), times.add_plan(all, 4);
  }}.join();
  CHECK(times.beside() == 7);
  CHECK(times.take_plan(owners) == 1);
  CHECK(times.take_plan(owners) == 0);
  CHECK(times.take_plan(all) == 2);
  times.begin();
  CHECK(times.take_plan(all) == 0);
}

TEST_CASE("a prediction with an interval stays the same in between") {
  auto window = step::interval_window{2, 3};
  window.push(std::vector<std::uint64_t>{4, 0});
  CHECK(window.predict() == fssdp::expert_loads{4, 0});
  window.push(std::vector<std::uint64_t>{0, 4});
  window.push(std::vector<std::uint64_t>{0, 4});
  CHECK(window.predict() == fssdp::expert_loads{4, 0});
  window.push(std::vector<std::uint64_t>{0, 4});
  CHECK(window.predict() == fssdp::expert_loads{1, 3});
}

TEST_CASE("an impossible option of fssdp_step is an error that names it") {
  CHECK(mentions_all(step_refusal({"--policy", "best"}), {"--policy best: expected some of ep"}));
  CHECK(mentions_all(step_refusal({"--slow", "0"}), {"--slow 0.0", "expected 0.01 to"}));
  CHECK(mentions_all(step_refusal({"--scale", "-1"}), {"--scale -1", "expected 0.01 to"}));
  CHECK(mentions_all(step_refusal({"--interval", "0"}), {"--interval 0: expected 1 or more"}));
  CHECK(mentions_all(step_refusal({"--prefetch", "-1"}), {"--prefetch -1: expected 0 or more"}));
  CHECK(mentions_all(step_refusal({"--json", "--csv"}), {"--json --csv: expected one of them"}));
  CHECK(mentions_all(step_refusal({"--wire", "1e8"}), {"--wire: expected --backend mpi"}));
  CHECK(mentions_all(step_refusal({"--backend", "mpi", "--devices", "8"}), {"no --devices"}));
  CHECK(mentions_all(step_refusal({"--cluster", "z"}), {"--cluster z: expected some of flat"}));
  CHECK(mentions_all(step_refusal({"--backend", "cuda", "--slow", "2"}),
                     {"--slow: expected --backend thread or mpi"}));
  CHECK(mentions_all(step_refusal({"--backend", "nccl", "--wire", "1e8"}),
                     {"--wire: expected --backend mpi"}));
  CHECK(mentions_all(step_refusal({"--backend", "gpu"}), {"--backend", "cuda", "nccl"}));
  CHECK(mentions_all(read_step({"--help"}).message,
                     {"What is real and what is emulated", "--slow", "host", "fssdp_step --cluster",
                      "hecate-calibrated"}));
}

TEST_CASE("on GPUs times and bytes are not scaled by default") {
  auto const asked = read_step({"--backend", "cuda"}).chosen.value();
  CHECK(asked.backend == step::backend::cuda);
  CHECK(asked.scene.devices == std::vector{8});
  CHECK(asked.emulates.scale == 1);
  CHECK(asked.emulates.slow == 1);
  auto const scaled = read_step({"--backend", "nccl", "--devices", "2", "--scale", "4"}).chosen;
  CHECK(scaled.value().backend == step::backend::nccl);
  CHECK(scaled.value().scene.devices == std::vector{2});
  CHECK(scaled.value().emulates.scale == 4);
  CHECK(read_step({}).chosen.value().emulates.slow == 4);
}

TEST_CASE("a token becomes whole units of bytes, and an expert two matrices of its width") {
  CHECK(step::whole_bytes({.scale = 100}, 1536).bytes(1536) == 15);
  for (auto const scale : {0.5, 1.0, 7.0, 96.0, 5000.0}) {
    auto const bytes = step::whole_bytes({.scale = scale}, 1536, 16).bytes(1536);
    CHECK(bytes % 16 == 0);
    CHECK(bytes >= 16);
  }
  auto const small = small_steps{};
  auto job = small.job(policy_named("ep"));
  job.emulates = step::whole_bytes({.scale = 96}, 1536, 16);
  auto const shape = step::shape_of(job, 3);
  CHECK(shape.width == 4);
  CHECK(shape.hidden == 1536);
  CHECK(shape.elements % 3 == 0);
  CHECK(2 * shape.width * shape.hidden <= shape.elements);
  job.emulates = {.scale = 1536};
  CHECK_THROWS_WITH(step::shape_of(job, 1),
                    Catch::Contains("--scale 1536") && Catch::Contains("expected a smaller one"));
}

TEST_CASE("measurements as a table, CSV and JSON have the same figures") {
  auto const small = small_steps{};
  auto of = step::measurement{.policy = "ours",
                              .model = "gpt-moe-s",
                              .cluster = "a",
                              .devices = 16,
                              .slots = 4,
                              .layers = 2,
                              .iterations = {{.seconds = 0.002,
                                              .exposed_seconds = 0.0001,
                                              .moving_seconds = 0.001,
                                              .token_seconds = 0.0005,
                                              .busy_share = 0.25}},
                              .predicted_seconds = 0.0019,
                              .max_over_mean = 1.01};
  auto ep = of;
  ep.iterations[0].seconds = 0.008;
  auto const json = step::to_json(of, ep);
  CHECK(json["measured_us"] == Approx(2000));
  CHECK(json["predicted_us"] == Approx(1900));
  CHECK(json["over_ep"] == Approx(4));
  CHECK(json["exposed_share"] == Approx(0.1));
  CHECK(json["host_busy_share"] == Approx(0.25));
  CHECK(json["load_max_over_mean"] == Approx(1.01));
  CHECK(mentions_all(step::table_line(of, ep), {"ours", "2000", "4.000", "1900", "1.053"}));
  CHECK(mentions_all(step::csv_line(of, ep), {"a,16,gpt-moe-s,ours,2000,2000,1900,4.0000"}));
  CHECK(mentions_all(step::table_head(small.of(), small.asked, small.asked.emulates),
                     {"16 devices", "emulated: bytes 1/1536"}));
  CHECK(mentions_all(step::table_head(small.of(), small.asked, {.scale = 4}, "1 x H100"),
                     {"measured on 1 x H100: bytes 1/4;"}));
  CHECK(step::warning_of(of).empty());
  of.iterations[0].busy_share = 0.6;
  CHECK(mentions_all(step::warning_of(of), {"ours", "60 %", "larger --slow"}));
  auto const head = step::csv_head();
  auto const line = step::csv_line(of, ep);
  CHECK(std::ranges::count(head, ',') == std::ranges::count(line, ','));
}
