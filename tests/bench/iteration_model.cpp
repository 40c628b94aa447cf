// SPDX-License-Identifier: Apache-2.0
/// The model of fssdp_step: what a device computes hides transfers, and tokens come after the first
/// messages of those that are in progress.
#include <cstddef>
#include <vector>

#include "catch.hpp"
#include "fssdp_step/iteration_model.hpp"
#include "fssdp_step/message_costs.hpp"

namespace {

using fssdp::gathers;

/// A layer whose tokens take 1 s each way, whose experts compute 4 and 8 s, and whose gathers and
/// reductions take as long as is said, in as many messages.
step::layer_costs layer_of(step::expert_move gather, step::expert_move reduction, double late = 0) {
  return {.experts = {.one_way = 1, .forward = 5, .backward = 9},
          .gather = gather,
          .late_gather = late,
          .reduction = reduction};
}
step::layer_costs layer_of(double gather, double reduction, double late = 0) {
  return layer_of({gather, 1}, {reduction, 1}, late);
}
/// 2 s of attention.
step::iteration_shape const shape{.dense_seconds = 2, .token_messages = 4};
constexpr auto forward = 2 + 1 + 5.0;
constexpr auto backward = 1 + 9 + 2 * 2.0;

double seconds_of(std::vector<step::layer_costs> const& layers,
                  step::iteration_shape const& of = shape, gathers often = gathers::once) {
  return step::iteration_seconds(layers, of, often);
}

}  // namespace

TEST_CASE("without transfers an iteration is computation and tokens") {
  auto const layer = layer_of(0, 0);
  CHECK(seconds_of({layer}) == forward + backward);
  CHECK(seconds_of({layer, layer, layer}) == 3 * (forward + backward));
  auto with_messages = shape;
  with_messages.counts_seconds = 0.25;
  with_messages.message_seconds = 0.5;
  CHECK(seconds_of({layer}, with_messages) == forward + 0.25 + backward + 4 * 0.5);
  auto alone = layer;
  alone.experts = {.one_way = 0, .forward = 4, .backward = 8};
  CHECK(seconds_of({alone}, with_messages) == 2 + 0.25 + 4 + 8 + 4);  // no messages
}

TEST_CASE("attention hides the first gather, and the experts of the layer before the others") {
  auto const still = forward + backward;
  CHECK(seconds_of({layer_of(2, 0)}) == still);
  CHECK(seconds_of({layer_of(3, 0)}) == still + 1);
  CHECK(seconds_of({layer_of(0, 0), layer_of(4, 0)}) == 2 * still);
  CHECK(seconds_of({layer_of(0, 0), layer_of(5, 0)}) == 2 * still + 1);  // of it tokens wait 1 s
  CHECK(seconds_of({layer_of(0, 0), layer_of(9, 0)}) == 2 * still + 5);
  auto nothing_ahead = shape;
  nothing_ahead.prefetch_distance = 0;
  CHECK(seconds_of({layer_of(0, 0), layer_of(4, 0)}, nothing_ahead) == 2 * still + 4);
  auto two_ahead = shape;
  two_ahead.prefetch_distance = 2;
  CHECK(seconds_of({layer_of(0, 0), layer_of(0, 0), layer_of(8, 0)}) == 3 * still + 4);
  CHECK(seconds_of({layer_of(0, 0), layer_of(0, 0), layer_of(4, 0)}, two_ahead) == 3 * still);
}

TEST_CASE("a gather that waits for the router's counts is not hidden, and only it is waited for") {
  auto const still = forward + backward;
  CHECK(seconds_of({layer_of(0, 0, 3)}) == still + 3);
  CHECK(seconds_of({layer_of(2, 0, 3)}) == still + 3);
  CHECK(seconds_of({layer_of(3, 0, 3)}) == still + 1 + 3);
}

TEST_CASE("attention and the next experts hide reductions, and tokens wait for them in between") {
  auto const still = forward + backward;
  CHECK(seconds_of({layer_of(0, 4)}) == still);  // attention, backward
  CHECK(seconds_of({layer_of(0, 5)}) == still + 1);
  CHECK(seconds_of({layer_of(0, 0), layer_of(0, 7)}) == 2 * still + 3);  // a dispatch waits
}

TEST_CASE("tokens come after as many messages of a transfer as they have, and before the others") {
  auto const still = forward + backward;
  auto const then = [&](step::expert_move const& gather) {
    return seconds_of({layer_of(0, 0), layer_of(gather, {})});
  };
  CHECK(then({6, 4}) == 2 * still + 2);                   // what the experts before it do not hide
  CHECK(then({6, 8}) == 2 * still);                       // attention hides the rest
  CHECK(then({8, 8}) == 2 * still + 2);                   // but not all of it
  CHECK(then({20, 8}) == 2 * still + 6 + (20 - 10 - 2));  // tokens wait for half of it
  CHECK(seconds_of({layer_of(0, 0), layer_of({}, {7, 4})}) == 2 * still + 3);
  CHECK(seconds_of({layer_of(0, 0), layer_of({}, {7, 8})}) == 2 * still);
}

TEST_CASE(
    "replicas that are gathered again are there for the backward pass, and the last are kept") {
  auto const still = forward + backward;
  CHECK(seconds_of({layer_of(2, 0)}, shape, gathers::twice) == still);
  CHECK(seconds_of({layer_of(2, 0), layer_of(0, 0)}, shape, gathers::twice) == 2 * still);
  // Twice as long is hidden behind the experts in the backward pass.
  CHECK(seconds_of({layer_of(9, 0), layer_of(0, 0)}, shape, gathers::once) == 2 * still + 7);
  CHECK(seconds_of({layer_of(9, 0), layer_of(0, 0)}, shape, gathers::twice) == 2 * still + 7 + 1);
}

TEST_CASE("what is not planned ahead delays gathers: the device waits for solvers, not for plans") {
  auto const still = forward + backward;
  auto const planned = [](step::layer_costs layer, step::planning_costs const& costs) {
    layer.planning = costs;
    return layer;
  };
  CHECK(seconds_of({planned(layer_of(0, 0), {.solver = 3})}) == still + 3);
  CHECK(seconds_of({planned(layer_of(0, 0), {.plan = 2})}) == still);  // beside attention
  CHECK(seconds_of({planned(layer_of(2, 0), {.plan = 2})}) == still + 2);
  CHECK(seconds_of({planned(layer_of(1, 0), {.solver = 0.5, .plan = 3})}) == still + 0.5 + 2);
  CHECK(seconds_of({planned(layer_of(0, 0, 3), {.late_solver = 1})}) == still + 1 + 3);
  CHECK(seconds_of({planned(layer_of(0, 0), {.late_plan = 20}), layer_of(0, 0)}) ==
        2 * still + 20 - forward);  // the next gather comes behind it
  auto const second = [&](step::expert_move const& gather, double plan) {
    return seconds_of({layer_of(0, 0), planned(layer_of(gather, {}), {.plan = plan})});
  };
  CHECK(second({0, 1}, 7) == 2 * still);  // experts, their tokens on the way back, attention
  CHECK(second({0, 1}, 8) == 2 * still + 1);
  CHECK(second({2, 1}, 5) == 2 * still);  // attention hides the gather behind it
  CHECK(second({3, 1}, 5) == 2 * still + 1);
}

TEST_CASE("a device's messages to other nodes pass through one port, with those of its node's") {
  auto const cost = fssdp::message_cost{
      .inside_latency_seconds = 1, .between_latency_seconds = 10, .port_seconds = 0.125};
  auto const rank = fssdp::rank_id{0};
  auto const topo = [&](int nodes, fssdp::network_interface network) {
    return fssdp::topology{
        {.nodes = nodes, .ranks = 8, .ports = {16, 4}, .network = network, .cost = cost}};
  };
  auto const one = topo(1, fssdp::network_interface::per_node);
  auto const shared = topo(2, fssdp::network_interface::per_node);
  auto const own = topo(2, fssdp::network_interface::per_rank);
  CHECK(step::message_seconds(one, rank) == 1 + 7 * 0.125);
  CHECK(step::message_seconds(shared, rank) == 10 + 4 * 4 * 0.125);
  CHECK(step::message_seconds(own, rank) == 10 + 4 * 0.125);
  CHECK(step::counts_seconds(one, rank, 32) == 1 + 7 * 2.0);
  CHECK(step::counts_seconds(shared, rank, 32) == 10 + 4 * 4 * 8.0);
  CHECK(step::counts_seconds(own, rank, 32) == 10 + 4 * 8.0);
}
