// SPDX-License-Identifier: Apache-2.0
/// Groups that train independently, and average parameters.
#include "fssdp/hybrid/parameter_exchange.hpp"

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/hybrid/codec_compressor.hpp"
#include "support/two_levels.hpp"

using fssdp::layer_id;
using fssdp::outer_update;
using fssdp::parameter_exchange;
using fssdp::rank_id;

namespace {

/// One expert with two parameters. Each round all groups begin with the same ones, and end with these.
[[nodiscard]] std::vector<std::vector<float>> come_together(
    fssdp::parameter_exchange_options const& options, std::vector<float> const& start,
    std::vector<std::vector<std::vector<float>>> const& ends) {
  auto const groups = static_cast<int>(ends.front().size());
  auto world = fssdp::thread_world{groups};
  auto const all = support::on_all_ranks(world, [&](fssdp::thread_communicator& between) {
    auto const layouts = fssdp::layer_stack<fssdp::table_layout>{{{{.ranks = 1}, {rank_id{0}}}}};
    auto exchange = parameter_exchange{between, layouts, rank_id{0}, {{1, start.size()}}, options};
    auto weights = fssdp::expert_buffer<float>{1, std::vector{start.size()}};
    std::ranges::copy(start, weights.tensors()[0][0].begin());
    exchange.begin(layer_id{0}, weights);
    auto rounds = std::vector<std::vector<float>>{};
    for (auto const& round : ends) {
      std::ranges::copy(round[between.rank().index()], weights.tensors()[0][0].begin());
      exchange.synchronize(layer_id{0}, weights);
      exchange.advance();
      auto const now = weights.tensors()[0][0];
      rounds.emplace_back(now.begin(), now.end());
    }
    return rounds;
  });
  for (auto const& one : all) REQUIRE(one == all.front());
  return all.front();
}

void is_close(std::vector<float> const& found, std::vector<float> const& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i, found[i], expected[i]);
    CHECK(std::abs(found[i] - expected[i]) <= 2e-6F);
  }
}

}  // namespace

TEST_CASE("DiLoCo: two rounds of two groups") {
  auto const rounds =
      come_together({.outer = fssdp::diloco}, {1, -2},
                    {{{0.9F, -1.9F}, {0.8F, -1.96F}}, {{0.7F, -1.8F}, {0.6F, -1.9F}}});
  is_close(rounds[0], {0.8005F, -1.9069F});
  is_close(rounds[1], {0.515285F, -1.791533F});
}

TEST_CASE("local SGD: the average of the parameters") {
  auto const rounds = come_together(
      {}, {1, -2, 4},
      {{{0.5F, -1, 4}, {0.25F, -3, 5}, {0, -2, 6}}, {{1, 1, 1}, {2, 2, 2}, {3, 3, 3}}});
  is_close(rounds[0], {0.25F, -2, 5});
  is_close(rounds[1], {2, 2, 2});
}

TEST_CASE("what a codec leaves out of a round is added in the next one") {
  auto const options =
      fssdp::parameter_exchange_options{.compressor = fssdp::codec_compressor<fssdp::int8_codec>{}};
  auto const start = std::vector<float>{0, 0};
  // the second is below half a step of the codec beside the first
  auto ends = std::vector<std::vector<std::vector<float>>>{};
  for (int round = 0; round < 4; ++round)
    ends.push_back(
        {{static_cast<float>(round + 1) * 100, 0.3F}, {static_cast<float>(round + 1) * 100, 0.3F}});
  auto const rounds = come_together(options, start, ends);
  CHECK(rounds[0][1] == 0);
  CHECK(rounds[3][1] > 0);
}

TEST_CASE("weights of another shape are refused") {
  auto world = fssdp::thread_world{1};
  auto const texts = support::on_all_ranks(world, [](fssdp::thread_communicator& between) {
    auto const layouts = support::owners_by_chance(3, 1, 1);
    auto exchange = parameter_exchange{between, layouts, rank_id{0}, support::two_shapes()};
    auto weights = fssdp::expert_buffer<float>{2, support::sizes_of(support::two_shapes())};
    auto list = std::vector<std::string>{};
    for (auto const layer : {layer_id{0}, layer_id{5}}) {
      try {
        exchange.begin(layer, weights);
      } catch (fssdp::argument_error const& error) {
        list.emplace_back(error.what());
      }
    }
    return list;
  });
  CHECK(texts[0] ==
        std::vector<std::string>{"gradient_exchange: tensor 0 is [2, 480]; expected [3, 480]",
                                 "gradient_exchange: layer 5; expected 0 to 1"});
}
