// SPDX-License-Identifier: Apache-2.0
// Groups in fssdp_sim and fssdp_step: bytes as the library sends them, what hides them, what is
// shown of them, real exchanges between emulated devices.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "between/exchange.hpp"
#include "catch.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp_sim/between_result.hpp"
#include "fssdp_sim/command_line.hpp"
#include "fssdp_sim/policies/policies.hpp"
#include "fssdp_sim/scenarios.hpp"
#include "fssdp_sim/show_between.hpp"
#include "fssdp_step/command_line.hpp"
#include "fssdp_step/device_group.hpp"
#include "fssdp_step/report.hpp"
#include "support/on_all_ranks.hpp"

namespace {

using namespace std::chrono_literals;

template <class Read>
auto read_line(Read read_command_line, char const* name, std::vector<char const*> arguments) {
  arguments.insert(arguments.begin(), name);
  return read_command_line(static_cast<int>(arguments.size()), arguments.data());
}
sim::options sim_of(std::vector<char const*> const& arguments) {
  return read_line(sim::read_command_line, "fssdp_sim", arguments).chosen.value();
}
std::string refused_by_sim(std::vector<char const*> const& arguments) {
  auto const line = read_line(sim::read_command_line, "fssdp_sim", arguments);
  CHECK(!line.chosen.has_value());
  return line.message;
}
std::string refused_by_step(std::vector<char const*> const& arguments) {
  auto const line = read_line(step::read_command_line, "fssdp_step", arguments);
  CHECK(!line.chosen.has_value());
  return line.message;
}
bool is_in(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}
std::vector<std::string> lines_in(std::string const& text) {
  auto lines = std::vector<std::string>{};
  auto in = std::istringstream{text};
  for (auto line = std::string{}; std::getline(in, line);) lines.push_back(line);
  return lines;
}
std::vector<std::size_t> columns_of(std::string const& line, char bar = '|') {
  auto places = std::vector<std::size_t>{};
  for (std::size_t i = 0; i < line.size(); ++i)
    if (line[i] == bar) places.push_back(i);
  return places;
}

/// An expert of gpt-moe-s, as floats.
constexpr auto elements_of_expert = std::size_t{2} * 768 * 1536;
sim::crossing crossing_of(char const* method, int groups) {
  return {between::method_of(method), sim::units_of(*sim::model_named("gpt-moe-s")), groups};
}

/// What a rank of every group has really sent for a layer, and what the library says that it sends.
struct sent_bytes {
  std::uint64_t counted = 0;
  std::uint64_t told = 0;
};
std::vector<sent_bytes> really_sent(between::method const& by, int groups,
                                    std::vector<fssdp::unit_shape> const& units, int experts) {
  return support::on_all_ranks(groups, [&](fssdp::thread_communicator& comm) {
    auto counted = fssdp::counting<fssdp::thread_communicator>{comm};
    auto const layouts = fssdp::layer_stack<fssdp::table_layout>{
        std::vector{fssdp::as_table(fssdp::block_layout{{.experts = experts, .ranks = 1}})}};
    auto exchange = fssdp::gradient_exchange{counted, layouts, fssdp::rank_id{0}, units,
                                             between::exchange_of(by)};
    auto elements = std::vector<std::size_t>{};
    for (auto const unit : units) elements.push_back(unit.elements());
    auto gradients = fssdp::expert_buffer<float>{static_cast<std::size_t>(experts), elements};
    auto const draws = fssdp::counter_random{fssdp::random_key(comm.rank().value())};
    for (auto const& tensor : gradients.tensors())
      for (std::size_t slot = 0; slot < tensor.slots; ++slot)
        for (std::size_t i = 0; i < tensor.elements; ++i) tensor[slot][i] = draws[i] - 0.5F;
    exchange.average(fssdp::layer_id{0}, gradients);
    return sent_bytes{counted.counts().bytes_sent, exchange.bytes_sent(fssdp::layer_id{0})};
  });
}

/// Two devices in each of two nodes, whose interfaces are shared or not.
fssdp::topology two_nodes(fssdp::network_interface network) {
  return fssdp::topology{{.nodes = 2,
                          .ranks = 4,
                          .network = network,
                          .cost = {.between_latency_seconds = 0, .port_seconds = 0}}};
}

/// Four devices of one group, two layers.
std::deque<sim::prepared> small_group(std::vector<char const*> more = {}) {
  auto arguments = std::vector<char const*>{
      "--cluster", "flat", "--devices",    "4", "--layers", "2", "--experts", "8",
      "--tokens",  "100",  "--iterations", "3", "--groups", "3"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return sim::prepare_all(sim_of(arguments));
}
sim::between_result small_between(sim::prepared const& one, sim::policy const& which,
                                  sim::group_setting const& of) {
  auto const base = sim::simulate(sim::ep, one.of);
  return sim::result_between({sim::simulate(which, one.of), base}, which, one.where, of);
}

/// Groups of two emulated devices, small enough for any machine.
step::measurement measured_groups(char const* policy, char const* method, int groups,
                                  sim::group_rhythm const& rhythm = {}, int reshard_every = 100,
                                  int iterations = 5) {
  auto const count = std::to_string(iterations);
  auto asked = read_line(step::read_command_line, "fssdp_step",
                         {"--cluster", "flat", "--devices", "2", "--layers", "2", "--experts", "4",
                          "--tokens", "32", "--iterations", count.c_str(), "--scale", "1536",
                          "--slow", "1", "--overlap", "2"})
                   .chosen.value();
  auto scenes = sim::prepare_all(asked.scene);
  auto& of = scenes.front().of;
  of.samples.erase(of.samples.begin());
  auto const& which = *std::ranges::find(step::policies, policy, &step::policy::name);
  return step::join_threads(60s)->measure(
      {.of = of,
       .which = which,
       .emulates = asked.emulates,
       .reshard_every = reshard_every,
       .between = step::between_job{.of = {.groups = groups,
                                           .method = between::method_of(method),
                                           .rhythm = rhythm,
                                           .bytes_per_second = 1e12}}},
      {});
}

bool has_crossed(step::iteration_record const& one) {
  return std::ranges::max(one.between_bytes) > 0;
}

}  // namespace

TEST_CASE("methods are read as they are written, and others are refused") {
  for (auto const& of : between::methods) {
    CHECK(between::method_of(between::text_of(of)) == of);
    CHECK(between::method_of(of.name) == of);
  }
  CHECK(between::text_of(between::method_of("demo:8")) == "demo:8");
  for (auto const* text :
       {"", "most", "demo:", "demo:0", "demo:x", "demo:70000", "int8:4", "qsdp:3", "qsdp-shift:16"})
    CHECK_THROWS_WITH(between::method_of(text),
                      Catch::Contains("--between " + std::string{text} + ": expected full, bf16"));
}

TEST_CASE("every method sends as many bytes as the simulator says") {
  auto const units = std::vector<fssdp::unit_shape>{{48, 70}, {70, 48}, {1, 333}};
  for (auto const& method : between::methods)
    for (int groups : {2, 3}) {
      CAPTURE(method.name, groups);
      auto const by = sim::crossing{method, units, groups};
      auto const sent = really_sent(method, groups, units, 3);
      auto most = sent_bytes{};
      for (auto const& one : sent) {
        most.counted = std::max(most.counted, one.counted);
        most.told = std::max(most.told, one.told);
      }
      if (method.name == "tagc") {  // for elements by chance
        CHECK(static_cast<double>(by.bytes(3)) ==
              Approx(static_cast<double>(most.counted)).epsilon(0.05));
        CHECK(by.bytes(3) < most.told);
      } else {
        CHECK(by.bytes(3) == most.counted);
        CHECK(by.bytes(3) == most.told);
      }
      CHECK(by.bytes(0) == 0);
    }
}

TEST_CASE("groups exchange an expert as its matrices, and a slice as runs") {
  auto const units = sim::units_of(*sim::model_named("mixtral-8x7b"));
  REQUIRE(units.size() == 3);
  CHECK(units.front() == fssdp::unit_shape{4096, 14336});
  CHECK(units.back() == fssdp::unit_shape{14336, 4096});
  auto const slices = sim::units_of(*sim::model_named("gpt-moe-s"), 4);
  CHECK(slices ==
        std::vector<fssdp::unit_shape>{{1, elements_of_expert / 8}, {1, elements_of_expert / 8}});
  auto const smaller = sim::units_of(*sim::model_named("gpt-moe-s"), 1, 256);
  CHECK(smaller == std::vector<fssdp::unit_shape>{{48, 96}, {96, 48}});
  CHECK(crossing_of("full", 2).bytes(3) == 3 * 4 * elements_of_expert);
  CHECK(crossing_of("full", 4).bytes(3) == 3 * 6 * elements_of_expert);
  CHECK(crossing_of("bf16", 4).bytes(3) == 3 * 6 * elements_of_expert);  // gathered
  CHECK(crossing_of("demo:4", 3).bytes(1) == 2 * elements_of_expert / 64 * 4 * 5);
  CHECK(crossing_of("striding:8", 2).bytes(1) == elements_of_expert / 8 * 4);
  CHECK(crossing_of("powersgd:4", 2).bytes(2) == 2 * 2 * 4 * 4 * (768 + 1536));
}

TEST_CASE("counterparts meet once for a gathered payload, twice for an added one") {
  CHECK(crossing_of("int8", 2).meetings() == 1);
  CHECK(crossing_of("full", 2).meetings() == 2);
  CHECK(crossing_of("powersgd", 2).meetings() == 4);
  CHECK(crossing_of("tagc", 2).meetings() == 3);
}

TEST_CASE("the layers below hide what groups exchange") {
  using sim::detail::exposed_behind;
  auto const layers = std::vector<sim::layer_pace>(
      3, {.experts_seconds = 4, .reduction_seconds = 1, .rest_seconds = 2});
  auto const exposed = [&](std::vector<double> const& link) {
    return exposed_behind(layers, link);
  };
  // owners have the last layer's gradients after 5, the others' after 11 and 17, and all ends at 18
  CHECK(exposed({0, 0, 0}) == 0);
  CHECK(exposed({1, 1, 1}) == 0);
  CHECK(exposed({3, 0, 0}) == Approx(2));
  CHECK(exposed({0, 0, 13}) == 0);
  CHECK(exposed({0, 0, 20}) == Approx(7));
  CHECK(exposed({2, 6, 6}) == Approx(1));
  CHECK(exposed({2, 8, 8}) == Approx(5));
  auto const late = std::vector<sim::layer_pace>{{.experts_seconds = 4, .reduction_seconds = 5}};
  CHECK(exposed_behind(late, std::vector<double>{3}) == Approx(3));
}

TEST_CASE("devices of one interface share its link, and the fullest device counts") {
  auto const by = crossing_of("full", 2);
  auto const layers =
      std::vector<sim::layer_pace>{{.owned = {1, 2, 0, 1}}, {.owned = {0, 1, 2, 0}}};
  auto of = sim::group_setting{.groups = 2, .bytes_per_second = 4.0 * elements_of_expert};
  auto const alone =
      sim::cost_between(layers, two_nodes(fssdp::network_interface::per_rank), by, of, 0);
  CHECK(alone.bytes == Approx(3.0 * 4 * elements_of_expert));
  CHECK(alone.link_seconds == Approx(3));
  CHECK(alone.exposed_seconds == Approx(3));
  auto const shared =
      sim::cost_between(layers, two_nodes(fssdp::network_interface::per_node), by, of, 0);
  CHECK(shared.bytes == Approx(3.0 * 4 * elements_of_expert));
  CHECK(shared.link_seconds == Approx(4));
  auto const costly = fssdp::topology{
      {.nodes = 1, .ranks = 4, .cost = {.between_latency_seconds = 10, .port_seconds = 1}}};
  CHECK(sim::cost_between(layers, costly, by, of, 0).link_seconds == Approx(3 + 2 * 2 * (10 + 1)));
  of.rhythm.sync_every = 4;
  auto const now_and_then =
      sim::cost_between(layers, two_nodes(fssdp::network_interface::per_node), by, of, 0);
  CHECK(now_and_then.bytes == Approx(3.0 * elements_of_expert));
  CHECK(now_and_then.link_seconds == Approx(1));
}

TEST_CASE("parameters that are exchanged at once are not hidden") {
  auto const by = crossing_of("full", 2);
  auto const layers =
      std::vector<sim::layer_pace>{{.owned = {0}}, {.rest_seconds = 5, .owned = {1}}};
  auto const topo = fssdp::topology{
      {.nodes = 1, .ranks = 1, .cost = {.between_latency_seconds = 0, .port_seconds = 0}}};
  auto of = sim::group_setting{.groups = 2, .bytes_per_second = 4.0 * elements_of_expert};
  CHECK(sim::cost_between(layers, topo, by, of, 0).exposed_seconds == 0);
  of.rhythm.sync_every = 1;
  CHECK(sim::cost_between(layers, topo, by, of, 5).exposed_seconds == Approx(1));
}

TEST_CASE("iterations hide parameters that are applied later") {
  auto const by = crossing_of("full", 2);
  auto const layers = std::vector<sim::layer_pace>{{.owned = {3}}, {.owned = {1}}};
  auto const topo = fssdp::topology{
      {.nodes = 1, .ranks = 1, .cost = {.between_latency_seconds = 0, .port_seconds = 0}}};
  auto const cost = [&](sim::group_rhythm const& rhythm) {
    auto const of = sim::group_setting{
        .groups = 2, .rhythm = rhythm, .bytes_per_second = 4.0 * elements_of_expert};
    return sim::cost_between(layers, topo, by, of, 2);  // the layers take 3 and 1, an iteration 2
  };
  auto const in_one = cost({.sync_every = 4});
  CHECK(in_one.exposed_seconds == Approx(1));
  CHECK(cost({.sync_every = 4, .outer = sim::outer::diloco}).exposed_seconds == Approx(1));
  CHECK(cost({.sync_every = 4, .outer = sim::outer::co2}).exposed_seconds == 0);
  CHECK(cost({.sync_every = 1, .outer = sim::outer::co2}).exposed_seconds == Approx(2));
  CHECK(cost({.sync_every = 4, .sync_delay = 1}).exposed_seconds == Approx(0.5));
  CHECK(cost({.sync_every = 4, .sync_delay = 2}).exposed_seconds == 0);
  CHECK(cost({.sync_every = 4, .fragments = 2}).exposed_seconds == Approx(1));
  auto const in_turn = cost({.sync_every = 4, .fragments = 2, .sync_delay = 1});
  CHECK(in_turn.exposed_seconds == Approx(0.25));
  CHECK(in_turn.bytes == Approx(in_one.bytes));
  CHECK(in_turn.link_seconds == Approx(in_one.link_seconds));
  auto const uneven = std::vector<sim::layer_pace>{{.owned = {3, 1}}, {.owned = {1, 3}}};
  auto const two = fssdp::topology{
      {.nodes = 2, .ranks = 2, .cost = {.between_latency_seconds = 0, .port_seconds = 0}}};
  auto of = sim::group_setting{.groups = 2,
                               .rhythm = {.sync_every = 2, .fragments = 2},
                               .bytes_per_second = 4.0 * elements_of_expert};
  auto const waits = sim::cost_between(uneven, two, by, of, 2);
  CHECK(waits.link_seconds == Approx(2));  // 4 in two iterations
  CHECK(waits.bytes == Approx(2.0 * 4 * elements_of_expert));
  CHECK(waits.exposed_seconds == Approx(3));  // after each of them one of the devices takes 3
}

TEST_CASE("an iteration in groups is one of a group and what is exposed") {
  auto const scene = small_group();
  auto const& one = scene.front();
  auto of = sim::group_setting{
      .groups = 3, .method = between::method_of("int8"), .bytes_per_second = 1e6};
  auto const slow = small_between(one, sim::hecate, of);
  CHECK(slow.seconds() == Approx(slow.inside.of.seconds() + slow.cost.exposed_seconds));
  CHECK(slow.over_full() > 1);
  CHECK(slow.share_of_full() < 1);
  CHECK(slow.cost.bytes == Approx(2 * crossing_of("int8", 3).bytes(2)));
  auto const sliced = small_between(one, sim::fsep, of);
  auto const slice = sim::crossing{of.method, sim::units_of(*one.where.model, 4), 3};
  CHECK(sliced.cost.bytes == Approx(2 * slice.bytes(8)));
  of.bytes_per_second = 1e15;
  auto const fast = small_between(one, sim::hecate, of);
  CHECK(fast.over_full() < slow.over_full());
  CHECK(fast.cost.exposed_seconds < slow.cost.exposed_seconds);
  of.method = between::methods.front();
  CHECK(small_between(one, sim::ep, of).over_full() == Approx(1));
  CHECK(small_between(one, sim::ep, of).over_ep() == Approx(1));
}

TEST_CASE("every method appears in the table, the CSV and the JSON of groups") {
  auto const asked = sim_of({"--groups", "3", "--between", "all,demo:8", "--between-rate",
                             "1e9,2e9", "--sync-every", "0"});
  CHECK(asked.between.methods.size() == between::methods.size() + 1);
  auto const settings = sim::settings_of(asked.between, 5);
  CHECK(settings.size() == 2 * asked.between.methods.size());
  CHECK(sim::settings_of(sim_of({"--groups", "2"}).between, 5).front().bytes_per_second == 5);
  auto const scene = small_group();
  auto const head = lines_in(sim::between_table_head(scene.front().of, asked.between));
  CHECK(is_in(head[1], "3 groups of these; gradients are sent in every iteration"));
  auto const cells = columns_of(sim::between_csv_head(), ',').size();
  for (auto const& of : {settings.front(), settings.back()}) {
    auto const one = small_between(scene.front(), sim::ours, of);
    auto const line = lines_in(sim::table_line(one)).front();
    CHECK(columns_of(line) == columns_of(head.back()));
    CHECK(line.size() == head.back().size());
    CHECK(columns_of(sim::csv_line(one), ',').size() == cells);
    auto const written = sim::to_json(one);
    CHECK(written["between"] == between::text_of(of.method));
    CHECK(written["groups"] == 3);
    CHECK(written["between_bytes"].get<double>() == Approx(one.cost.bytes));
    CHECK(written["iteration_us"].get<double>() ==
          Approx(written["inside_us"].get<double>() + written["between_exposed_us"].get<double>()));
    CHECK(written["speedup_over_full"].get<double>() == Approx(one.over_full()));
  }
  CHECK(sim::text_of({.sync_every = 1}) == "parameters are sent after every iteration");
  CHECK(is_in(sim::text_of({.sync_every = 8}), "after 8 iterations"));
  CHECK(is_in(sim::text_of({.sync_every = 8, .outer = sim::outer::co2}), "a round late"));
  CHECK(is_in(
      sim::text_of({.sync_every = 8, .fragments = 2, .sync_delay = 3}),
      "2 fragments of parameters are sent in turn, each once in 8 iterations, applied 3 later"));
}

TEST_CASE("an impossible option of groups is an error that names it") {
  for (auto const* name :
       {"--between", "--sync-every", "--outer", "--fragments", "--sync-delay", "--between-rate"})
    CHECK(is_in(refused_by_sim({name, std::string{name} == "--between" ? "full" : "1"}),
                std::string{name} + ": expected --groups 2 or more"));
  CHECK(is_in(refused_by_sim({"--groups", "0"}), "--groups 0: expected 1 or more"));
  CHECK(is_in(refused_by_sim({"--groups", "5000"}), "--groups 5000: expected at most 4096"));
  CHECK(is_in(refused_by_sim({"--groups", "2", "--between", "full,none"}),
              "--between none: expected full, bf16"));
  CHECK(is_in(refused_by_sim({"--groups", "2", "--sync-every", "-1"}),
              "--sync-every -1: expected 0"));
  CHECK(is_in(refused_by_sim({"--groups", "2", "--outer", "adam"}),
              "--outer adam: expected average, diloco or co2"));
  CHECK(is_in(refused_by_sim({"--groups", "2", "--outer", "co2"}),
              "--outer co2: expected --sync-every 1"));
  CHECK(is_in(refused_by_sim({"--groups", "2", "--fragments", "2"}),
              "--fragments 2: expected a divisor of --sync-every"));
  CHECK(is_in(refused_by_sim({"--groups", "2", "--sync-every", "3", "--fragments", "2"}),
              "--fragments 2: expected a divisor of --sync-every"));
  CHECK(is_in(
      refused_by_sim({"--groups", "2", "--sync-every", "4", "--fragments", "2", "--outer", "co2"}),
      "--fragments 2: expected a divisor of --sync-every, without --outer co2"));
  CHECK(is_in(refused_by_sim(
                  {"--groups", "2", "--sync-every", "4", "--fragments", "2", "--sync-delay", "2"}),
              "--sync-delay 2: expected less than the iterations between two fragments"));
  CHECK(is_in(refused_by_sim({"--groups", "2", "--sync-delay", "-1"}),
              "--sync-delay -1: expected 0"));
  CHECK(is_in(refused_by_sim({"--groups", "2", "--fragments", "0"}), "--fragments 0: expected 1"));
  CHECK(is_in(refused_by_sim({"--groups", "2", "--between-rate", "0"}), "--between-rate 0"));
  CHECK(is_in(refused_by_sim({"--groups", "2", "--between-rate", "1,x"}), "--between-rate: x"));
  CHECK(is_in(refused_by_sim({"--groups", "2", "--advise"}), "--groups --advise: expected one"));
  CHECK(is_in(refused_by_sim({"--groups", "2", "--time"}), "--groups --time: expected one"));
  CHECK(is_in(refused_by_sim({"--groups", "2", "--objective", "balance"}), "--objective balance"));
  CHECK(
      is_in(refused_by_step({"--groups", "2", "--backend", "cuda"}), "expected --backend thread"));
  CHECK(is_in(refused_by_step({"--between", "demo"}), "--between: expected --groups 2"));
  auto const help = read_line(step::read_command_line, "fssdp_step", {"--help"}).message;
  for (auto const* word : {"--sync-every", "powersgd[:RANK]", "demo-2d:32", "sent between"})
    CHECK(is_in(help, word));
}

TEST_CASE("emulated groups send what is predicted, and have the same bits") {
  for (auto const& method : between::methods) {
    CAPTURE(method.name);
    auto const of = measured_groups("ours", between::text_of(method).c_str(), 3);
    REQUIRE(of.iterations.size() == 4);
    CHECK(of.between.method == method);
    CHECK(of.between_bytes() > 0);
    auto const digits = method.name == "tagc" ? 0.3 : 0.01;  // of few elements
    CHECK(of.between_bytes() == Approx(of.predicted_between_bytes).epsilon(digits));
    CHECK(of.predicted_seconds > of.predicted_between_seconds);
    for (auto const& one : of.iterations) CHECK(one.between_seconds >= 0);
  }
}

TEST_CASE("emulated groups exchange slices and parameters, also after owners changed") {
  auto const same_bytes = [](step::measurement const& of) {
    return of.between_bytes() == Approx(of.predicted_between_bytes).epsilon(0.01);
  };
  CHECK(same_bytes(measured_groups("fsep", "full", 2)));
  CHECK(same_bytes(measured_groups("ours", "full", 2, {}, 1)));
  CHECK(same_bytes(measured_groups("ours", "demo", 2, {}, 1)));
  auto const now_and_then = measured_groups("ours", "full", 2, {.sync_every = 2}, 1);
  CHECK(same_bytes(now_and_then));
  for (std::size_t n = 0; n < 4; ++n)
    CHECK(has_crossed(now_and_then.iterations[n]) == (n % 2 == 1));
  CHECK(same_bytes(measured_groups("ep", "int8", 2, {.sync_every = 1})));
}

TEST_CASE("emulated groups apply parameters later: in fragments, and a round late") {
  struct variant {
    char const* policy;
    char const* method;
    int groups;
    sim::group_rhythm rhythm;
    int reshard_every = 100;
  };
  using sim::outer;
  for (auto const& of : std::vector<variant>{
           {"ours", "full", 2, {.sync_every = 2, .outer = outer::co2}},
           {"ep", "full", 3, {.sync_every = 1, .outer = outer::co2}},
           {"ours", "int8", 2, {.sync_every = 3, .outer = outer::co2}, 2},
           {"fsep", "demo", 2, {.sync_every = 2, .outer = outer::co2}},
           {"ours", "full", 2, {.sync_every = 2, .outer = outer::diloco}},
           {"ours", "full", 2, {.sync_every = 2, .fragments = 2}},
           {"ours", "full", 3, {.sync_every = 4, .fragments = 2, .sync_delay = 1}},
           {"ours", "full", 2, {.sync_every = 3, .sync_delay = 2}},
           {"ours", "full", 2, {.sync_every = 3, .sync_delay = 2}, 1},
           {"ep",
            "qsdp-shift:4",
            2,
            {.sync_every = 4, .outer = outer::diloco, .fragments = 2, .sync_delay = 1}}}) {
    CAPTURE(of.policy, of.method, of.groups, sim::text_of(of.rhythm), of.reshard_every);
    auto const seen =
        measured_groups(of.policy, of.method, of.groups, of.rhythm, of.reshard_every, 8);
    CHECK(seen.between_bytes() > 0);
    CHECK(seen.between_bytes() == Approx(seen.predicted_between_bytes).epsilon(0.01));
  }
}

TEST_CASE("bytes count in the iteration that waits for them") {
  auto const crossed = [](sim::group_rhythm const& rhythm) {
    auto in = std::vector<bool>{};
    for (auto const& one : measured_groups("ep", "full", 2, rhythm).iterations)
      in.push_back(has_crossed(one));
    return in;
  };
  CHECK(crossed({.sync_every = 4, .fragments = 2, .sync_delay = 1}) ==
        std::vector{true, false, true, false});  // that of the iteration before the first, then one
  CHECK(crossed({.sync_every = 4, .sync_delay = 2}) == std::vector{false, true, false, false});
  CHECK(crossed({.sync_every = 2, .outer = sim::outer::co2}) ==
        std::vector{false, true, false, true});
}

TEST_CASE("measurements of groups have columns of their own") {
  auto one = step::iteration_record{
      .seconds = 0.004, .between_seconds = 0.002, .between_bytes = {3e6, 4e6}};
  auto const between = sim::group_setting{
      .groups = 2, .method = {"demo", 4}, .rhythm = {.sync_every = 2}, .bytes_per_second = 1e9};
  auto of = step::measurement{.policy = "ours",
                              .iterations = {{.seconds = 0.002}, one, {.seconds = 0.002}, one},
                              .predicted_seconds = 0.003,
                              .between = between,
                              .predicted_between_seconds = 0.0008,
                              .predicted_between_bytes = 2e6};
  CHECK(of.between_seconds() == Approx(0.001));
  CHECK(of.between_bytes() == Approx(2e6));
  CHECK(of.seconds() == Approx(0.003));
  CHECK(of.measured_over_predicted() == Approx(1));
  auto const scene = small_group();
  auto const head = lines_in(step::table_head(scene.front().of, {}, {}, {}, &between)).back();
  auto const line = lines_in(step::table_line(of, of)).front();
  CHECK(columns_of(line) == columns_of(head));
  CHECK(line.size() == head.size());
  CHECK(is_in(line, "1.000      1000       800"));
  auto const written = step::to_json(of, of);
  CHECK(written["between"] == "demo:4");
  CHECK(written["between_exposed_us"].get<double>() == Approx(1000));
  CHECK(written["sync_every"] == 2);
  CHECK(written["outer"] == "average");
  CHECK(columns_of(step::csv_line(of, of), ',').size() == columns_of(step::csv_head(), ',').size());
  of.between.rhythm.sync_every = 0;
  CHECK(of.seconds() == Approx(0.003));  // the median
  of.between.groups = 1;
  CHECK(!step::to_json(of, of).contains("between"));
}
