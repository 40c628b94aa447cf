// SPDX-License-Identifier: Apache-2.0
/// Changes of a round are applied in the next one.
#include "fssdp/hybrid/delayed_exchange.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/two_levels.hpp"

using fssdp::delayed_exchange;
using fssdp::delayed_exchange_options;
using fssdp::layer_id;
using fssdp::rank_id;
using floats = std::vector<float>;

namespace {

/// A round of one group: the parameters after its first step, and after its last.
struct local_round {
  floats first;
  floats last;
};

/// One expert. What each round ends with; all groups have the same.
[[nodiscard]] std::vector<floats> come_together_late(
    delayed_exchange_options options, bool overlapped, floats const& start,
    std::vector<std::vector<local_round>> const& rounds) {
  auto const groups = static_cast<int>(rounds.front().size());
  auto world = fssdp::thread_world{groups};
  auto const all = support::on_all_ranks(world, [&](fssdp::thread_communicator& between) {
    auto alone = fssdp::split(between, fssdp::hybrid_groups{{.groups = groups}}).inside;
    auto const layouts = fssdp::layer_stack<fssdp::table_layout>{{{{.ranks = 1}, {rank_id{0}}}}};
    auto stream = fssdp::host_stream{};
    auto chosen = options;
    chosen.stream = overlapped ? &stream : nullptr;
    auto exchange = delayed_exchange{between, layouts, rank_id{0}, {{1, start.size()}}, chosen};
    auto weights = fssdp::expert_buffer<float>{1, std::vector{start.size()}};
    auto const values = weights.tensors()[0][0];
    std::ranges::copy(start, values.begin());
    exchange.begin(layer_id{0}, weights);
    auto ends = std::vector<floats>{};
    for (auto const& round : rounds) {
      auto const& [first, last] = round[between.rank().index()];
      std::ranges::copy(first, values.begin());
      exchange.first_step(layer_id{0}, weights);
      std::ranges::copy(last, values.begin());
      auto const gap = fssdp::staleness_gap(alone, between, exchange.gap_of_rank());
      exchange.synchronize(layer_id{0}, weights, gap);
      exchange.advance();
      ends.emplace_back(values.begin(), values.end());
    }
    return ends;
  });
  for (auto const& one : all) REQUIRE(one == all.front());
  return all.front();
}

void are_close(floats const& found, floats const& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i, found[i], expected[i]);
    CHECK(std::abs(found[i] - expected[i]) <= 2e-6F);
  }
}

}  // namespace

TEST_CASE("CO2: three rounds of two groups, with the staleness gap and a clip") {
  // both groups take the same first step; the averages of their rounds are (0.84, -1.76), (0.8, -1.7)
  auto const rounds = std::vector<std::vector<local_round>>{
      {{{0.925F, -1.91F}, {0.8F, -1.8F}}, {{0.925F, -1.91F}, {0.88F, -1.72F}}},
      {{{0.93F, -1.9F}, {0.7F, -1.6F}}, {{0.93F, -1.9F}, {0.9F, -1.8F}}},
      {{{0.9F, -1.9F}, {0.9F, -1.9F}}, {{0.9F, -1.9F}, {0.9F, -1.9F}}}};
  for (auto const overlapped : {false, true}) {
    auto const ends =
        come_together_late({.momentum = 0.5, .clip = 0.2}, overlapped, {1, -2}, rounds);
    are_close(ends[0], {1, -2});
    are_close(ends[1], {0.84F, -1.8F});
    are_close(ends[2], {0.695448F, -1.603171F});
  }
}

TEST_CASE("without penalty, momentum and clip the average is applied a round late") {
  auto const rounds = std::vector<std::vector<local_round>>{
      {{{1}, {1.5F}}, {{1}, {2.5F}}}, {{{1}, {0.5F}}, {{1}, {0.25F}}}, {{{1}, {9}}, {{1}, {9}}}};
  auto const ends = come_together_late({.clip = 1e30, .penalty = false}, true, {1}, rounds);
  CHECK(ends[0] == floats{1});
  CHECK(ends[1] == floats{2});           // 1 + ((0.5 + 1.5) / 2)
  CHECK(ends[2] == floats{2 - 0.625F});  // + ((0.5 - 1) + (0.25 - 1)) / 2
}

TEST_CASE("rates, clips and gaps that cannot be are refused") {
  auto world = fssdp::thread_world{1};
  auto const texts = support::on_all_ranks(world, [](fssdp::thread_communicator& between) {
    auto const layouts = support::owners_by_chance(3, 1, 1);
    auto list = std::vector<std::string>{};
    auto const refusal = [&](auto call) {
      try {
        call();
      } catch (fssdp::argument_error const& error) {
        list.emplace_back(error.what());
      }
    };
    auto const make = [&](delayed_exchange_options const& options) {
      auto exchange =
          delayed_exchange{between, layouts, rank_id{0}, support::two_shapes(), options};
      auto weights = fssdp::expert_buffer<float>{3, support::sizes_of(support::two_shapes())};
      exchange.synchronize(layer_id{0}, weights, 0.5);
    };
    refusal([&] { make({.rate = 0}); });
    refusal([&] { make({.clip = 0}); });
    refusal([&] { make({}); });
    return list;
  });
  CHECK(texts[0] ==
        std::vector<std::string>{"delayed_exchange: rate is 0 and clip 1; expected more than 0",
                                 "delayed_exchange: rate is 1 and clip 0; expected more than 0",
                                 "delayed_exchange: gap is 0.5; expected 1 or more"});
}
