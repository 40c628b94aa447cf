// SPDX-License-Identifier: Apache-2.0
/// The window predicts from the last loads and nothing older.
#include "fssdp/placement/load_window.hpp"

#include <deque>

#include "catch.hpp"
#include "support/laws.hpp"

using fssdp::expert_loads;
using fssdp::load_window;

TEST_CASE("a window is the mean of the last loads, rounded up") {
  auto draw = support::dice{3};
  for (int length = 1; length <= 6; ++length) {
    auto window = load_window{4, length};
    auto recent = std::deque<expert_loads>{};
    REQUIRE(window.predict() == expert_loads(4));
    for (int step = 0; step < 20; ++step) {
      auto now = expert_loads(4);
      for (auto& load : now) load = static_cast<std::uint64_t>(draw.between(0, 1000));
      window.push(now);
      recent.push_back(now);
      if (recent.size() > static_cast<std::size_t>(length)) recent.pop_front();
      auto sum = expert_loads(4);
      for (auto const& loads : recent)
        for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += loads[e];
      for (auto& load : sum) load = (load + recent.size() - 1) / recent.size();
      REQUIRE(window.predict() == sum);
    }
  }
}

TEST_CASE("the paper's window has 5 iterations") {
  auto window = load_window{1};
  for (auto i = std::uint64_t{1}; i <= 7; ++i) window.push(expert_loads{i});
  REQUIRE(window.predict() == expert_loads{(3 + 4 + 5 + 6 + 7) / 5});
}

TEST_CASE("a constant history predicts itself") {
  support::for_random_instances([](support::random_instance const& of) {
    auto window = load_window{of.layout.experts()};
    auto same = true;
    for (int step = 0; step < 8; ++step) {
      window.push(of.loads);
      same = same && window.predict() == of.loads;
    }
    REQUIRE(same);
  });
}

TEST_CASE("an impossible window, or loads of another model, are refused") {
  REQUIRE_THROWS_AS((load_window{0}), fssdp::argument_error);
  REQUIRE_THROWS_WITH((load_window{0}), mentions("0 experts") && mentions("1 or more"));
  REQUIRE_THROWS_AS((load_window{4, 0}), fssdp::argument_error);
  REQUIRE_THROWS_WITH((load_window{4, 0}), mentions("length is 0") && mentions("1 or more"));
  auto window = load_window{4};
  REQUIRE_THROWS_AS(window.push(expert_loads(3)), fssdp::argument_error);
  REQUIRE_THROWS_WITH(window.push(expert_loads(3)), mentions("3 loads") && mentions("4"));
  REQUIRE(window.predict() == expert_loads(4));
}

TEST_CASE("a new expert counts with the mean of the others in each iteration of the window") {
  auto window = load_window{2, 2};
  window.push(expert_loads{100, 100});  // falls out
  window.push(expert_loads{3, 4});      // 3.5, rounded up
  window.push(expert_loads{10, 0});
  window.resize(3);
  REQUIRE(window.predict() == expert_loads{7, 2, 5});
  window.push(expert_loads{1, 1, 0});
  REQUIRE(window.predict() == expert_loads{6, 1, 3});
  window.push(expert_loads{1, 1, 0});
  REQUIRE(window.predict() == expert_loads{1, 1, 0});
}
