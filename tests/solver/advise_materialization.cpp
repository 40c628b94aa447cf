// SPDX-License-Identifier: Apache-2.0
/// Advice is a budget that a solver can use, a gain that it then has, and a reason.
#include "fssdp/solver/advise_materialization.hpp"

#include <limits>
#include <string>

#include "catch.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/placement/port_loads.hpp"
#include "support/laws.hpp"

using fssdp::advise_materialization;

namespace {

[[nodiscard]] fssdp::layer_rates some_rates() {
  return {.forward_seconds_per_row = 1e-7,
          .token_bytes = 1536,
          .expert_bytes = 1U << 20U,
          .window_seconds = 1e-3};
}
[[nodiscard]] bool says(std::string const& text, char const* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("for skewed loads the advice is replicas, with their gain") {
  auto const layout = fssdp::block_layout{{.experts = 8, .ranks = 4}};
  auto const loads = fssdp::expert_loads{90000, 5000, 3000, 1000, 500, 300, 100, 100};
  auto const advice = advise_materialization({.loads = loads, .rates = some_rates()}, layout);
  CHECK(advice.pays());
  CHECK(advice.budget.spare_slots >= 1);
  CHECK(advice.budget.spare_slots <= 4);
  CHECK(advice.gain() > 2);
  CHECK(advice.max_over_mean_without > 3.5);
  CHECK(advice.max_over_mean_with < 1.1);
  CHECK(says(advice.why, "on a rank"));
  CHECK(says(advice.why, "times as fast"));
}

TEST_CASE("for even loads the advice is no replicas, and why") {
  auto const layout = fssdp::block_layout{{.experts = 8, .ranks = 4}};
  auto const loads = fssdp::expert_loads(8, 1000);
  auto rates = some_rates();
  rates.token_bytes = 0;
  auto const advice = advise_materialization({.loads = loads, .rates = rates}, layout);
  CHECK(!advice.pays());
  CHECK(advice.gain() == 1);
  CHECK(says(advice.why, "no replicas: without them the fullest rank works on 1.00 times"));
}

TEST_CASE("advice stays within the memory, and is never slower") {
  support::for_random_instances(
      support::law_instances / 100 + 10,
      [seed = std::uint64_t{0}](support::random_instance const& of) mutable {
        auto draw = support::dice{++seed};
        auto const most = draw.between(0, 5);
        auto loads = of.loads;
        for (auto& load : loads) load %= 1'000'000;
        auto const advice = advise_materialization(
            {.loads = loads, .rates = some_rates(), .topology = of.topo, .most_slots = most},
            of.layout);
        REQUIRE(advice.budget.spare_slots <= most);
        REQUIRE(advice.gain() >= 1);
        REQUIRE(!advice.why.empty());
      });
}

TEST_CASE("advice tries as many slots as there are, however few or many") {
  auto const layout = fssdp::block_layout{{.experts = 8, .ranks = 8}};
  auto const loads = fssdp::expert_loads{30000, 30000, 30000, 10, 10, 10, 10, 10};
  auto rates = some_rates();
  rates.window_seconds = 1;  // whatever moves is hidden
  auto const three =
      advise_materialization({.loads = loads, .rates = rates, .most_slots = 3}, layout);
  CHECK(three.budget.spare_slots == 3);
  auto const all = advise_materialization(
      {.loads = loads, .rates = rates, .most_slots = std::numeric_limits<int>::max()}, layout);
  CHECK(all.budget.spare_slots <= 8);
  CHECK(all.gain() >= three.gain());
}

TEST_CASE("advice refuses impossible input") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
  auto const loads = fssdp::expert_loads{3, 4};
  CHECK_THROWS_WITH(advise_materialization({.loads = loads}, layout),
                    Catch::Contains(".rates has 0 seconds"));
  CHECK_THROWS_WITH(
      advise_materialization({.loads = loads, .rates = some_rates(), .most_slots = -1}, layout),
      Catch::Contains("most_slots is -1"));
  auto const three = fssdp::expert_loads{3, 4, 5};
  CHECK_THROWS_AS(advise_materialization({.loads = three, .rates = some_rates()}, layout),
                  fssdp::argument_error);
}
