// SPDX-License-Identifier: Apache-2.0
/// How much each class is compressed: the fewest bytes that errors allow.
#include "fssdp/hybrid/rate_solver.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "fssdp/core/error.hpp"
#include "support/dice.hpp"

using fssdp::choose_rates;
using fssdp::rate_table;
using choice = std::vector<std::size_t>;

namespace {

[[nodiscard]] rate_table first_table() {
  return {.bytes = {{40, 20, 10}, {80, 40, 20}, {160, 80, 40}},
          .errors = {{0.2, 1, 1.6}, {0.9, 1, 1.1}, {0.5, 1, 1.5}},
          .usual = 1};
}
[[nodiscard]] rate_table second_table() {
  return {.bytes = {{400, 200, 100}, {800, 400, 200}, {1600, 800, 400}},
          .errors = {{0.5, 1, 1.8}, {0.2, 0.5, 0.8}, {1, 2, 3.6}},
          .usual = 1};
}
[[nodiscard]] std::uint64_t bytes_of(rate_table const& of, choice const& chosen) {
  auto sum = std::uint64_t{0};
  for (std::size_t l = 0; l < chosen.size(); ++l) sum += of.bytes[l][chosen[l]];
  return sum;
}
[[nodiscard]] double error_of(rate_table const& of, choice const& chosen) {
  auto sum = 0.0;
  for (std::size_t l = 0; l < chosen.size(); ++l) sum += of.errors[l][chosen[l]];
  return sum;
}

}  // namespace

TEST_CASE("L-GreCo: the choice of small tables, for coarse and fine errors") {
  for (std::size_t buckets : {10U, 100U, 10'000U})
    CHECK(choose_rates(first_table(), {.buckets = buckets}) == choice{0, 2, 2});
  for (std::size_t buckets : {100U, 10'000U})
    CHECK(choose_rates(second_table(), {.buckets = buckets}) == choice{0, 2, 1});
  CHECK(choose_rates(second_table(), {.buckets = 10}) == choice{1, 1, 1});  // too coarse
}

TEST_CASE("errors stay within the budget, and no choice has fewer bytes and as much room") {
  auto draw = support::dice{4};
  for (int instance = 0; instance < 200; ++instance) {
    CAPTURE(instance);
    auto table = rate_table{};
    table.usual = static_cast<std::size_t>(draw.between(0, 2));
    auto const classes = draw.between(1, 5);
    for (int l = 0; l < classes; ++l) {
      auto& bytes = table.bytes.emplace_back();
      auto& errors = table.errors.emplace_back();
      for (int c = 0; c < 3; ++c) {
        bytes.push_back(static_cast<std::uint64_t>(draw.between(1, 1000)));
        errors.push_back(draw.between(0, 1000) / 256.0);
      }
    }
    auto const chosen = choose_rates(table);
    auto const usual = choice(table.bytes.size(), table.usual);
    auto const budget = error_of(table, usual);
    REQUIRE(error_of(table, chosen) <= budget);
    REQUIRE(bytes_of(table, chosen) <= bytes_of(table, usual));
    // by trying all: with the room that rounding may cost each class
    auto const room = budget * (1 - 2.0 * classes / 10'000);
    auto all = choice(table.bytes.size());
    for (;;) {
      if (error_of(table, all) <= room) REQUIRE(bytes_of(table, chosen) <= bytes_of(table, all));
      auto at = all.begin();
      while (at != all.end() && ++*at == 3) *at++ = 0;
      if (at == all.end()) break;
    }
  }
}

TEST_CASE("without errors, or with a tolerance of none, the default stays") {
  auto table = first_table();
  CHECK(choose_rates(table, {.tolerance = 0}) == choice{1, 1, 1});
  table.errors = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
  CHECK(choose_rates(table) == choice{1, 1, 1});
  CHECK(choose_rates(first_table(), {.tolerance = 100}) == choice{2, 2, 2});
}

TEST_CASE("tables that cannot be are refused") {
  CHECK_THROWS_AS(choose_rates({}), fssdp::argument_error);
  auto table = first_table();
  table.usual = 3;
  CHECK_THROWS_AS(choose_rates(table), fssdp::argument_error);
  table = first_table();
  table.errors[1].pop_back();
  CHECK_THROWS_AS(choose_rates(table), fssdp::argument_error);
  CHECK_THROWS_AS(choose_rates(first_table(), {.buckets = 0}), fssdp::argument_error);
}
