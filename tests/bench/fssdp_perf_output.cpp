// SPDX-License-Identifier: Apache-2.0
// The figures of fssdp_perf, its table and its JSON.
#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp_perf/contestant.hpp"
#include "fssdp_perf/json.hpp"
#include "fssdp_perf/simulate.hpp"
#include "fssdp_perf/table.hpp"

namespace {

/// 6 replicas of 1 GB in 2 s, half of it through one port; the bound takes 1 s.
perf::result some_result() {
  return {.collective = perf::collective::rs,
          .of_case = perf::case_kind::hot_node,
          .seed = 7,
          .ranks = 4,
          .nodes = 2,
          .bytes = 1'000'000'000,
          .chunks = 8,
          .replicas = 6,
          .dtype = fssdp::dtype::bf16,
          .seconds = 2,
          .bound_seconds = 1,
          .tight_bound_seconds = 1,
          .bound = "stream sums",
          .wire = 6'000'000'000,
          .busiest_port = 3'000'000'000,
          .plan_seconds = 3e-6,
          .wrong = 0,
          .baseline = perf::baseline::neighbor,
          .baseline_seconds = 5};
}

std::vector<std::string> lines_of(std::string const& text) {
  auto lines = std::vector<std::string>{};
  auto in = std::istringstream{text};
  for (auto line = std::string{}; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::size_t> bars_of(std::string const& line) {
  auto places = std::vector<std::size_t>{};
  for (std::size_t i = 0; i < line.size(); ++i)
    if (line[i] == '|') places.push_back(i);
  return places;
}

}  // namespace

TEST_CASE("figures agree with their definitions") {
  auto const one = some_result();
  CHECK(perf::algbw(one) == Approx(3.0));
  CHECK(perf::busbw(one) == Approx(1.5));
  CHECK(perf::efficiency(one) == Approx(50.0));
  CHECK(*perf::speedup(one) == Approx(2.5));
  CHECK(perf::median({5, 1, 3}) == 3);
  CHECK(perf::median({4, 1, 3, 2}) == 2.5);
}

TEST_CASE("a bound is the median of the faster candidate of each turn") {
  auto const outcomes =
      std::vector<perf::outcome>{{.seconds = {5, 1, 2, 9, 6}}, {.seconds = {4, 3, 3, 3, 5}}};
  auto const best = perf::best_of(outcomes);  // 4 1 2 3 5
  CHECK(best.seconds == 3);
  CHECK(best.which == 1);
}

TEST_CASE("the check passes unless an element is wrong or the bound is beaten") {
  auto one = some_result();
  CHECK(perf::passes(one));
  one.wrong = 1;
  CHECK(!perf::passes(one));
  one.wrong = 0;
  one.baseline_wrong = 1;
  CHECK(!perf::passes(one));
  one.baseline_wrong = 0;
  one.seconds = 0.99;
  CHECK(!perf::passes(one));
  one.wrong.reset();  // nothing was to be checked
  CHECK(perf::passes(one));
}

TEST_CASE("the heading and the lines of the table have the same columns") {
  for (auto const baseline : {perf::baseline::none, perf::baseline::gloo_broadcast}) {
    auto const head = lines_of(perf::table_head({.baseline = baseline}));
    auto one = some_result();
    one.baseline = baseline;
    if (baseline == perf::baseline::none) one.baseline_seconds.reset();
    auto const line = lines_of(perf::table_line(one)).front();
    auto const names = head[head.size() - 2];
    CHECK(names.size() == line.size());
    CHECK(head.back().size() == line.size());
    CHECK(bars_of(line).size() == (baseline == perf::baseline::none ? 1 : 2));
    CHECK(bars_of(line) == bars_of(names));
    CHECK(bars_of(line) == bars_of(head.back()));
    one.wrong.reset();
    CHECK(lines_of(perf::table_line(one)).front().size() == line.size());
    for (auto const kind : fssdp::all_dtypes) {
      one.dtype = kind;
      CHECK(bars_of(lines_of(perf::table_line(one)).front()) == bars_of(line));
    }
  }
}

TEST_CASE("bytes and bound of blocks count what moves, for blocks of any lengths") {
  for (auto const of_case : {perf::case_kind::blocks, perf::case_kind::zipf_blocks}) {
    CAPTURE(perf::name_of(of_case));
    auto const of = perf::options{.ranks = 4, .cases = {of_case}, .simulate = true};
    auto const bytes = std::size_t{1} << 20U;
    auto const found = perf::simulate({perf::collective::ag, of_case, bytes}, of);
    CHECK(found.chunks == 4);
    CHECK(found.replicas == 12);
    CHECK(found.wire == 12 * bytes);
    CHECK(found.seconds >= found.bound_seconds);
    // the last rank gets most: all but (1 / 4) / (1 + 1 / 2 + 1 / 3 + 1 / 4) of them
    auto const wanted = of_case == perf::case_kind::blocks ? 3.0 : 4 - 12.0 / 25;
    CHECK(found.bound_seconds ==
          Approx(wanted * static_cast<double>(bytes) / of.link_bandwidth).epsilon(1e-4));
  }
}

TEST_CASE("geometric means and the result of the check are printed below the table") {
  auto results = std::vector{some_result(), some_result()};
  results.back().seconds = 0.5;
  auto const foot = perf::table_foot(results);
  CHECK(foot.find("efficiency: 100.0 %") != std::string::npos);
  CHECK(foot.find("speedup over neighbor: 5.00") != std::string::npos);
  CHECK(foot.find("1 of 2 beyond 100 %") != std::string::npos);
}

TEST_CASE("the JSON of a result has all fields, in microseconds, GB/s and percent") {
  auto const written = perf::to_json(some_result());
  auto fields = std::vector<std::string>{};
  for (auto const& field : written.items()) fields.push_back(field.key());
  CHECK(fields == std::vector<std::string>{"backend",
                                           "collective",
                                           "case",
                                           "seed",
                                           "ranks",
                                           "nodes",
                                           "bytes",
                                           "chunks",
                                           "replicas",
                                           "dtype",
                                           "op",
                                           "time_us",
                                           "bound_us",
                                           "tight_bound_us",
                                           "bound",
                                           "algbw",
                                           "busbw",
                                           "efficiency",
                                           "wire",
                                           "plan_us",
                                           "wrong",
                                           "baseline",
                                           "baseline_time_us"});
  CHECK(written["backend"] == "thread");
  CHECK(written["collective"] == "rs");
  CHECK(written["case"] == "hot-node");
  CHECK(written["op"] == "sum");
  CHECK(written["time_us"].get<double>() == Approx(2e6));
  CHECK(written["efficiency"].get<double>() == Approx(50));
  CHECK(written["wrong"] == 0);
  CHECK(written["baseline_time_us"].get<double>() == Approx(5e6));

  auto unchecked = some_result();
  unchecked.wrong.reset();
  unchecked.baseline_seconds.reset();
  CHECK(perf::to_json(unchecked)["wrong"].is_null());
  CHECK(perf::to_json(unchecked)["baseline_time_us"].is_null());
}
