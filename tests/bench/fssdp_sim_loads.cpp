// SPDX-License-Identifier: Apache-2.0
// Loads that fssdp_sim reads, generates, predicts and splits.
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>

#include "catch.hpp"
#include "fssdp_sim/prediction.hpp"
#include "fssdp_sim/read_loads.hpp"
#include "fssdp_sim/split_loads.hpp"
#include "fssdp_sim/synthetic_loads.hpp"
#include "fssdp_sim/write_loads.hpp"

namespace {

sim::load_trace trace_of(std::string const& text) {
  auto in = std::istringstream{text};
  return sim::read_loads(in, "loads.csv");
}

std::string fault_of(std::string const& text) {
  try {
    static_cast<void>(trace_of(text));
  } catch (std::invalid_argument const& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("a trace has a sample per iteration, ascending, whatever the order of its lines") {
  auto const trace = trace_of("iter,layer,e0,e1\r\n11,1,7,8\n11,0,5,6\n\n1,0,1,2\n1,1,3,4\n");
  REQUIRE(trace.size() == 2);
  CHECK(trace[0].iter == 1);
  CHECK(trace[0].layers == std::vector<fssdp::expert_loads>{{1, 2}, {3, 4}});
  CHECK(trace[1].iter == 11);
  CHECK(trace[1].layers == std::vector<fssdp::expert_loads>{{5, 6}, {7, 8}});
  CHECK(sim::mean_tokens(trace) == Approx(9));
}

TEST_CASE("a malformed trace is an error with the line, its content and what was expected") {
  CHECK(fault_of("") == "loads.csv:0: it is empty; expected the columns iter,layer,e0,e1,...");
  CHECK(fault_of("iter,e0,e1\n") == "loads.csv:1: column 2 is called 'e0'; expected layer");
  CHECK(fault_of("iter,layer\n") == "loads.csv:1: no column e0; expected iter,layer,e0,e1,...");
  CHECK(fault_of("iter,layer,e0,e2\n") == "loads.csv:1: column 4 is called 'e2'; expected e1");
  CHECK(fault_of("iter,layer,e0\n").starts_with("loads.csv:1: no loads below the columns"));
  auto const head = std::string{"iter,layer,e0,e1\n1,0,5,6\n"};
  CHECK(
      fault_of(head + "1,1,-3,4\n").starts_with("loads.csv:3: e0 is '-3'; expected a whole numb"));
  CHECK(fault_of(head + "1,1,3,4.5\n").starts_with("loads.csv:3: e1 is '4.5'; expected a whole"));
  CHECK(fault_of(head + "1,1,3,\n").starts_with("loads.csv:3: e1 is ''; expected a whole number"));
  CHECK(fault_of(head + "x,1,3,4\n").starts_with("loads.csv:3: iter is 'x'; expected a whole"));
  CHECK(fault_of(head + "1,1,3,4,5\n") ==
        "loads.csv:3: layer 1 has loads of 3 experts; expected 2, as in the first line");
  CHECK(fault_of(head + "1,0,3,4\n") ==
        "loads.csv:3: iteration 1, layer 0 stands in line 2 already");
  CHECK(fault_of(head + "1,2,3,4\n") ==
        "loads.csv:3: iteration 1 has layer 2, but no layer 1; expected layers without gaps");
  CHECK(fault_of(head + "2,0,3,4\n2,1,3,4\n") ==
        "loads.csv:4: iteration 2 has 2 layers; expected 1, as iteration 1 has");
  CHECK(fault_of("iter,layer,e0\n1,0,0\n").ends_with("all loads are 0; expected some tokens"));
}

TEST_CASE("a file that is not there is refused by its name") {
  CHECK_THROWS_WITH(sim::read_loads(std::filesystem::path{"no/such.csv"}),
                    "--trace no/such.csv: cannot be read; expected a file");
  CHECK_THROWS_WITH(sim::read_loads(std::filesystem::path{"/dev/zero"}),
                    "--trace /dev/zero is a device; expected a file");
}

TEST_CASE("synthetic loads depend on the seed only, and are read back as they were written") {
  auto const of = sim::synthetic_process{
      .layers = 3, .experts = 16, .tokens = 10'007, .iterations = 7, .jumps = 0.5, .seed = 5};
  auto const trace = sim::synthetic_loads(of);
  CHECK(sim::to_csv(trace) == sim::to_csv(sim::synthetic_loads(of)));
  auto other = of;
  other.seed = 6;
  CHECK(sim::to_csv(trace) != sim::to_csv(sim::synthetic_loads(other)));
  CHECK(sim::to_csv(trace_of(sim::to_csv(trace))) == sim::to_csv(trace));
  REQUIRE(trace.size() == 7);
  for (auto const& sample : trace)
    for (auto const& layer : sample.layers) {
      CHECK(std::accumulate(layer.begin(), layer.end(), std::uint64_t{0}) == of.tokens);
      CHECK(fssdp::max_over_mean(layer) > 2);
    }
}

TEST_CASE("without drift, jumps and noise loads stay") {
  auto const trace = sim::synthetic_loads({.drift = 0, .jumps = 0, .noise = 0});
  for (auto const& sample : trace) CHECK(sample.layers == trace.front().layers);
}

TEST_CASE("a rank has as many tokens of each expert as another, but for one, and so in all") {
  auto const loads = fssdp::expert_loads{10, 3, 0, 7, 5};
  auto const counts = sim::split_loads(loads, 4);
  CHECK(counts.loads() == loads);
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(4)) {
    auto sum = std::uint64_t{0};
    for (auto const expert : fssdp::first_n<fssdp::expert_id>(5)) {
      CHECK(counts(rank, expert) >= loads[expert.index()] / 4);
      CHECK(counts(rank, expert) <= loads[expert.index()] / 4 + 1);
      sum += counts(rank, expert);
    }
    CHECK(sum >= 25 / 4);
    CHECK(sum <= 25 / 4 + 1);
  }
}

TEST_CASE("predictions are of the last sample that is old enough, or of five") {
  auto trace = sim::load_trace{};
  for (std::uint64_t n = 0; n < 8; ++n)
    trace.push_back({.iter = static_cast<std::int64_t>(10 * n + 1), .layers = {{n, 2 * n}}});
  auto const now = sim::prediction{.stale = 0};
  auto const ten = sim::prediction{.stale = 10};
  auto const eleven = sim::prediction{.stale = 11};
  CHECK(now(trace, 6, 0) == fssdp::expert_loads{6, 12});
  CHECK(ten(trace, 6, 0) == fssdp::expert_loads{5, 10});
  CHECK(eleven(trace, 6, 0) == fssdp::expert_loads{4, 8});
  CHECK(ten(trace, 1, 0) == fssdp::expert_loads{0, 0});
  CHECK(eleven(trace, 1, 0) == fssdp::expert_loads{0, 0});
  CHECK(ten(trace, 0, 0) == fssdp::expert_loads{0, 0});
  CHECK(sim::prediction{}(trace, 7, 0) == fssdp::expert_loads{(2 + 3 + 4 + 5 + 6) / 5, 8});
  CHECK(sim::prediction{}(trace, 2, 0) == fssdp::expert_loads{1, 1});
}
