// SPDX-License-Identifier: Apache-2.0
// Costs in fssdp_sim, compared with cases that are worked by hand.
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "fssdp_sim/advice.hpp"
#include "fssdp_sim/comparison.hpp"
#include "fssdp_sim/layer_figures.hpp"
#include "fssdp_sim/policies/policies.hpp"
#include "fssdp_sim/setting.hpp"
#include "fssdp_sim/simulate.hpp"

namespace {

/// 2 nodes of 2 devices; 4 experts at one device each; 1 byte per second between nodes, 10 inside.
struct worked_case {
  fssdp::topology topology{{.nodes = 2,
                            .ranks = 4,
                            .ports = {10, 1},
                            .network = fssdp::network_interface::per_node,
                            .cost = {0, 0, 0}}};
  fssdp::expert_loads loads = {40, 0, 0, 8};
  fssdp::table_layout owners = fssdp::as_table(fssdp::block_layout{{.experts = 4, .ranks = 4}});
  fssdp::token_counts counts = sim::split_loads(loads, 4);
  sim::layer_question question = {.topology = &topology,
                                  .rates = {.forward_seconds_per_row = 2,
                                            .token_bytes = 3,
                                            .expert_bytes = 100,
                                            .window_seconds = 30},
                                  .owners = &owners,
                                  .predicted = &loads,
                                  .counts = &counts,
                                  .slots = 1,
                                  .overlap = 1};
};

}  // namespace

TEST_CASE("expert parallelism has computation and token messages only") {
  auto const of = worked_case{};
  auto const found =
      sim::figures_of(of.question, sim::answer_of(sim::ep, of.question), sim::ep.costs);
  CHECK(found.cost.compute_seconds == Approx(3 * 40 * 2));
  // 20 tokens of node 1 enter node 0, 4 leave it; 10 move inside each node at 10 bytes per second
  CHECK(found.cost.token_seconds == Approx(4 * 20 * 3));
  CHECK(found.cost.exposed_seconds == 0);
  CHECK(found.max_over_mean == Approx(40 * 4 / 48.0));
  CHECK(found.bytes == Approx(4 * (30 + 6) * 3));
  // forwards and backwards, what enters a node comes back later: 20 and 4 tokens each way
  CHECK(found.interface_bytes == Approx(2 * (20 + 4) * 3));
}

TEST_CASE("windows hide what they can of gathers, by what is gathered and when") {
  using sim::movement;
  auto const exposed = [](double gather, movement moves,
                          fssdp::gathers often = fssdp::gathers::once) {
    return sim::detail::exposed_seconds(gather, gather, 30, {.moves = moves, .often = often});
  };
  CHECK(exposed(25, movement::gathered) == 0);
  CHECK(exposed(50, movement::gathered) == Approx(20));
  CHECK(exposed(70, movement::gathered) == Approx(40 + 10));
  CHECK(exposed(50, movement::gathered, fssdp::gathers::twice) == Approx(20 + 40));
  CHECK(exposed(50, movement::exposed) == Approx(100));
  CHECK(exposed(50, movement::synced) == Approx(40));
  CHECK(exposed(50, movement::sliced) == Approx(20));
}

TEST_CASE(
    "with all experts on all devices no token is sent, and each device receives what others own") {
  auto const of = worked_case{};
  auto const found =
      sim::figures_of(of.question, sim::answer_of(sim::fsdp, of.question), sim::fsdp.costs);
  CHECK(found.cost.token_seconds == 0);
  CHECK(found.cost.compute_seconds == Approx(3 * 12 * 2));
  CHECK(found.bytes == Approx(3 * 4 * 3 * 100));
  // 2 experts of 100 bytes into each node at 1 byte per second; then the latency of one piece
  CHECK(found.cost.gather_seconds == Approx(200 + 100));
  CHECK(found.cost.exposed_seconds == Approx(300 - 30 + 600 - 60));
}

TEST_CASE("the interfaces of a node share the bytes that the node receives") {
  auto of = worked_case{};
  auto const where = fssdp::everywhere{}(of.owners);
  auto const bytes = [&] {
    return sim::figures_of(of.question, {of.owners, where}, {}).interface_bytes;
  };
  CHECK(bytes() == Approx((2 + 2) * 100));  // of 2 experts parameters, of 2 others gradients
  of.topology = fssdp::topology{{.nodes = 2, .ranks = 4, .ports = {10, 1}}};
  CHECK(bytes() == Approx((2 + 2) * 100 / 2));
  of.topology = fssdp::topology{{.nodes = 1, .ranks = 4, .ports = {10, 1}}};
  CHECK(bytes() == 0);
}

TEST_CASE("replicas that are added after the router are not hidden by computation") {
  auto const of = worked_case{};
  auto where = fssdp::placement{of.owners};
  where.add(fssdp::expert_id{0}, fssdp::rank_id{1});
  auto late = where;  // 10 seconds inside a node, and 10 of filling
  auto answer = sim::layer_answer{.owners = of.owners, .where = where, .late = late};
  auto const in_time = sim::layer_answer{.owners = of.owners, .where = where};
  CHECK(sim::figures_of(of.question, in_time, {}).cost.exposed_seconds == 0);
  auto const gather = sim::figures_of(of.question, in_time, {}).cost.gather_seconds;
  CHECK(gather > 0);
  CHECK(sim::figures_of(of.question, answer, {}).cost.exposed_seconds == Approx(gather));
  answer.where.add(fssdp::expert_id{3}, fssdp::rank_id{0});  // in time: 100 seconds and the filling
  auto const both = sim::figures_of(of.question, answer, {}).cost;
  CHECK(both.gather_seconds == Approx(gather + 200));
  CHECK(both.exposed_seconds == Approx(gather + (200 - 30) + (200 - 60)));
}

TEST_CASE("slices of all experts come from all devices, in equal parts") {
  auto const of = worked_case{};
  auto const where = fssdp::everywhere{}(of.owners);
  // into a node: half of 4 experts; 3/4 of 4 experts into a device at 11 bytes per second
  CHECK(sim::sliced_traffic(where, of.topology, 100).seconds == Approx(200));
  CHECK(sim::detail::deliveries({of.owners, where}, sim::movement::sliced) == Approx(4 * 3));
}

TEST_CASE("with the objective balance, links are free") {
  auto of = worked_case{};
  of.question.goal = sim::objective::balance;
  auto const found =
      sim::figures_of(of.question, sim::answer_of(sim::ep, of.question), sim::ep.costs);
  CHECK(found.cost.seconds() == Approx(3 * 40 * 2));
}

TEST_CASE("a device keeps parameters, six times as much of state, and replicas") {
  auto const of = worked_case{};
  auto where = fssdp::placement{of.owners};
  for (auto const rank : {1, 2}) where.add(fssdp::expert_id{0}, fssdp::rank_id{rank});
  where.add(fssdp::expert_id{3}, fssdp::rank_id{2});
  auto const answer = sim::layer_answer{of.owners, where};
  auto const most = [&](sim::traits const& how, int layers, double scale = 1) {
    auto memory = sim::device_memory{4};
    for (int n = 0; n < layers; ++n) memory.add(answer, how);
    return memory.most(how.replicas, scale);
  };
  CHECK(most({}, 1) == 7 + 2);
  CHECK(most({}, 3) == 3 * (7 + 2));
  CHECK(most({}, 3, 4) == 12 * (7 + 2));
  CHECK(most({.replicas = sim::lifetime::layer}, 1) == 7 + 2);
  CHECK(most({.replicas = sim::lifetime::layer}, 3) == 3 * 7 + 2 * 2);
  CHECK(most({.replicas = sim::lifetime::layer}, 3, 4) == 12 * 7 + 2 * 2);
  auto known = sim::device_memory{4};
  known.add(answer, {});
  CHECK(known.most(sim::lifetime::iteration, 4, 3) == 3 * 7 + 4 * 2);
  CHECK(most({.keeps = sim::replica_state::optimizer_too}, 2) == 2 * (7 + 2 * 7));
  CHECK(most({.moves = sim::movement::sliced}, 2) == 2 * (7 + 3));  // 4 experts over 4 devices
}

TEST_CASE("a layer of GPT-MoE-S costs what its shape says") {
  auto const& model = *sim::model_named("gpt-moe-s");
  CHECK(sim::expert_bytes(model) == 4'718'592);
  CHECK(sim::attention_flops(model) == Approx(2 * 4 * 768 * 768 + 2 * 1024 * 2 * 768));
  auto const made = sim::make_setting(*sim::cluster_named("a"), model, 16, 12, 32, 262'144);
  CHECK(made.tokens_per_device == Approx(8192));
  CHECK(made.rates.forward_seconds_per_row == Approx(4'718'592 / 50e12));
  CHECK(made.rates.token_bytes == 1536);
  auto const window = 8192 * sim::attention_flops(model) / 50e12;
  CHECK(made.rates.window_seconds == Approx(window));
  CHECK(made.non_moe_seconds == Approx(3 * 12 * window));
  CHECK(sim::hidden_experts(made) == static_cast<int>(window * 12.5e9 / 4'718'592));
}

TEST_CASE("an iteration is the sum of its layers and the rest, and scales") {
  auto of = sim::setting{.kind = sim::cluster_named("flat"),
                         .model = &sim::models.front(),
                         .topology = fssdp::topology{{.nodes = 1, .ranks = 2, .ports = {1e9, 1e9}}},
                         .layers = 6,
                         .experts = 2,
                         .rates = {.forward_seconds_per_row = 1},
                         .non_moe_seconds = 5};
  auto const loads = sim::load_trace{{1, {{4, 2}, {1, 3}}}, {2, {{4, 2}, {5, 3}}}};
  auto const result = sim::simulate(
      sim::ep, {.where = &of, .loads = &loads, .layer_ids = {0, 3}, .samples = {0, 1}});
  CHECK(result.sum(&sim::layer_result::compute_seconds) == Approx(3 * (3 * 4 + 3 * (3 + 5) / 2.0)));
  CHECK(result.seconds() == Approx(result.moe_seconds() + 5));
  CHECK(sim::mean(result.max_over_mean) == Approx((4 / 3.0 + 1.5 + 4 / 3.0 + 1.25) / 4));
  CHECK(result.memory_bytes == 0);
  auto const same = sim::comparison{result, result};
  CHECK(same.speedup() == 1);
  CHECK(same.layer_speedup(1) == 1);
}

TEST_CASE("percentiles lie between values") {
  CHECK(sim::percentile({3, 1, 2}, 0.5) == 2);
  CHECK(sim::percentile({0, 10}, 0.95) == Approx(9.5));
  CHECK(sim::percentile({7}, 0.95) == 7);
  CHECK(sim::percentile({1, 2, 3}, 1) == 3);
}

TEST_CASE("advice takes the fewest slots that are about as fast as any") {
  auto of = sim::setting{.model = &sim::models.front(),
                         .topology = fssdp::topology{{.nodes = 1, .ranks = 2}},
                         .layers = 1,
                         .experts = 5};
  auto const loads = sim::load_trace{{1, {{4, 2, 0, 0, 0}}}};
  auto const asked = sim::scenario{.where = &of, .loads = &loads, .layer_ids = {0}, .samples = {0}};
  auto const play = [](double second, double third) {
    return [=](sim::policy const& which, sim::scenario const& with) {
      auto result = sim::policy_result{
          .policy = std::string{which.name}, .slots = with.slots, .layers = 1, .per_layer = {{}}};
      result.non_moe_seconds = with.slots == 0 ? 10 : with.slots == 2 ? second : third;
      return result;
    };
  };
  auto const pays = sim::advise(asked, play(5.04, 5));
  CHECK(pays.pays());
  CHECK(pays.best().slots == 1);
  CHECK(sim::advise(asked, play(4, 5)).best().slots == 2);
  CHECK(!sim::advise(asked, play(9.95, 10)).pays());
  CHECK(pays.expert_loads == std::vector<double>{4 / 1.2, 2 / 1.2, 0, 0, 0});

  // the Python package knows rates, and no sizes
  auto const without_sizes = sim::model_shape{};
  of.model = &without_sizes;
  CHECK(sim::advise(asked, play(5.04, 5)).best().slots == 1);
  CHECK(sim::advise(asked, play(5.04, 5)).owners.bytes == 0);
}
