// SPDX-License-Identifier: Apache-2.0
/// How long rounds are.
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/hybrid/synchronization_schedule.hpp"

using fssdp::every;
using fssdp::quadratic;

TEST_CASE("rounds of equal length end with the training") {
  CHECK(every{}({.step = 3, .steps = 10}) == 1);
  CHECK(every{8}({.step = 0, .steps = 100}) == 8);
  CHECK(every{8}({.step = 96, .steps = 100}) == 4);
  CHECK(every{0}({.step = 0, .steps = 100}) == 1);
  CHECK_THROWS_AS(every{8}({.step = 100, .steps = 100}), fssdp::argument_error);
}

TEST_CASE("QSR: rounds grow as the square of what the learning rate has shrunk by") {
  auto const length = [](double alpha, double rate, std::uint64_t least,
                         std::uint64_t left = 100'000) {
    return quadratic{.alpha = alpha,
                     .least = least}({.step = 0, .steps = left, .learning_rate = rate});
  };
  CHECK(length(0.0175, 0.008, 4) == 4);
  CHECK(length(0.0175, 0.004, 4) == 19);
  CHECK(length(0.0175, 0.002, 4) == 76);
  CHECK(length(0.0175, 0.001, 4) == 306);
  CHECK(length(0.0175, 1e-6, 4, 500) == 500);
  CHECK(length(0.7, 0.1, 1) == 48);
  CHECK(length(0.2, 0.05, 2) == 16);
  CHECK(length(0.2, 0.8, 2) == 2);
  CHECK(length(1, 1e-300, 2, 70) == 70);
}

TEST_CASE("QSR: in the warm-up rounds are the shortest, and without alpha always") {
  auto const schedule = quadratic{.alpha = 1, .least = 3, .warm_up = 10};
  CHECK(schedule({.step = 9, .steps = 1000, .learning_rate = 0.1}) == 3);
  CHECK(schedule({.step = 10, .steps = 1000, .learning_rate = 0.1}) == 100);
  CHECK(quadratic{.least = 5}({.steps = 9, .learning_rate = 1e-9}) ==
        every{5}({.steps = 9, .learning_rate = 1e-9}));
  CHECK_THROWS_AS(schedule({.steps = 10, .learning_rate = 0}), fssdp::argument_error);
}

TEST_CASE("fragments in turn: each once in a period, applied after the delay") {
  auto const schedule = fssdp::staggered{.fragments = 2, .period = 6, .delay = 2};
  auto sent = std::vector<int>{};
  auto applied = std::vector<int>{};
  for (std::uint64_t step = 0; step <= 13; ++step) {
    sent.push_back(schedule(step, 13).sent);
    applied.push_back(schedule(step, 13).applied);
  }
  CHECK(sent ==
        std::vector{-1, -1, -1, 0, -1, -1, 1, -1, -1, 0, -1, -1, -1, -1});  // 12 is too late
  CHECK(applied == std::vector{-1, -1, -1, -1, -1, 0, -1, -1, 1, -1, -1, 0, -1, -1});
  CHECK(fssdp::staggered{.period = 4}(8, 8).sent == 0);
  CHECK(fssdp::staggered{.period = 4}(8, 8).applied == 0);
  CHECK_THROWS_AS((fssdp::staggered{.fragments = 4, .period = 6}(0, 9)), fssdp::argument_error);
  CHECK_THROWS_AS((fssdp::staggered{.fragments = 2, .period = 6, .delay = 3}(0, 9)),
                  fssdp::argument_error);
}
