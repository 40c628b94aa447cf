// SPDX-License-Identifier: Apache-2.0
/// Owners change only where that pays: cases worked by hand, and laws.
#include "fssdp/solver/resharding.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "catch.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "fssdp/plan/reshard_plan.hpp"
#include "fssdp/solver/sparse_materialization.hpp"
#include "support/random_layers.hpp"
#include "support/scaled.hpp"

using fssdp::block_layout;
using fssdp::expert_id;
using fssdp::expert_loads;
using fssdp::heterogeneous_sharding;
using fssdp::node_id;
using fssdp::rank_id;
using fssdp::resharding;
using fssdp::table_layout;
using fssdp::topology;

namespace {

using layer_layouts = std::vector<table_layout>;

[[nodiscard]] table_layout owned_by(int ranks, std::vector<int> const& owners) {
  auto list = std::vector<rank_id>{};
  for (auto const owner : owners) list.emplace_back(owner);
  return {{.ranks = ranks}, list};
}

/// Layouts for random layers: as many experts on each rank, or any number.
[[nodiscard]] layer_layouts layouts_for(support::random_layers const& of, std::uint64_t seed) {
  auto draw = support::dice{seed};
  auto const ranks = of.topo.ranks();
  auto layouts = layer_layouts{};
  for (auto const& loads : of.loads) {
    auto owners = std::vector<int>{};
    for (std::size_t e = 0; e < loads.size(); ++e)
      owners.push_back(draw.chance(50) ? static_cast<int>(e) % ranks : draw.between(0, ranks - 1));
    layouts.push_back(owned_by(ranks, owners));
  }
  return layouts;
}

/// Has one layout, however many layers there are.
struct one_layout_sharding {
  layer_layouts operator()(std::span<expert_loads const> loads, topology const& topo) const {
    return heterogeneous_sharding{}(loads.first(1), topo);
  }
};

/// The fullest rank of each layer, added up.
[[nodiscard]] double fullest_ranks(layer_layouts const& layouts,
                                   std::vector<expert_loads> const& loads) {
  auto sum = 0.0;
  for (std::size_t layer = 0; layer < layouts.size(); ++layer) {
    auto on_rank = std::vector<double>(static_cast<std::size_t>(layouts[layer].ranks()));
    for (auto const expert : fssdp::first_n<expert_id>(layouts[layer].experts()))
      on_rank[layouts[layer].owner(expert).index()] +=
          static_cast<double>(loads[layer][expert.index()]);
    sum += std::ranges::max(on_rank);
  }
  return sum;
}

/// The busiest port of the moves of a plan. [port: rank or interface, between nodes, into it]
[[nodiscard]] double seconds_of_moves(layer_layouts const& from, layer_layouts const& to,
                                      topology const& topo, double chunk_bytes) {
  auto use = std::map<std::vector<int>, double>{};
  auto const plan = fssdp::reshard_plan{fssdp::layer_stack{from}, fssdp::layer_stack{to}};
  for (auto const& move : plan.moves()) {
    auto const between = !topo.same_node(move.source, move.destination);
    auto const out = between ? topo.interface_of(move.source) : move.source;
    auto const in = between ? topo.interface_of(move.destination) : move.destination;
    auto const speed = [&](rank_id rank) {
      auto const& port = topo.port(rank);
      return between ? port.between_bytes_per_second : port.inside_bytes_per_second;
    };
    use[{out.value(), between ? 1 : 0, 0}] += chunk_bytes / speed(out);
    use[{in.value(), between ? 1 : 0, 1}] += chunk_bytes / speed(in);
  }
  auto most = 0.0;
  for (auto const& [port, seconds] : use) most = std::max(most, seconds);
  return most;
}

}  // namespace

TEST_CASE("re-sharding: the move of two experts pays from the third iteration on") {
  // d0 has 50 + 30, d1 10 + 10. Algorithm 2: 50 to d0, 30 to d1, 10 to d1, 10 to d0: the fullest
  // has 60. 20 tokens less, 1/4 s each: 5 s an iteration. One expert each way, 1000 bytes: 10 s.
  auto const topo =
      topology{{.nodes = 1,
                .ranks = 2,
                .ports = {.inside_bytes_per_second = 100, .between_bytes_per_second = 10}}};
  auto const current = std::vector{block_layout{{.experts = 4, .ranks = 2}}};
  auto const loads = std::vector<expert_loads>{{50, 30, 10, 10}};
  auto solve = resharding<>{.seconds_per_row = 0.25, .chunk_bytes = 1000, .iterations = 2};
  auto const even = solve(current, loads, topo);
  REQUIRE(!even.layouts.has_value());
  REQUIRE(even.gained_seconds == 10.0);
  REQUIRE(even.moved_seconds == 10.0);
  REQUIRE(even.moved_bytes == 1000);
  solve.iterations = 3;
  auto const pays = solve(current, loads, topo);
  REQUIRE(pays.layouts == layer_layouts{owned_by(2, {0, 1, 1, 0})});
  REQUIRE(pays.gained_seconds == 15.0);
  REQUIRE(pays.moved_seconds == 10.0);
  REQUIRE(pays.moved_bytes == 1000);
  auto const apart = topology{{node_id{0}, node_id{1}}, {topo.port(rank_id{0})}};
  REQUIRE(solve(current, loads, apart).moved_seconds == 100.0);
}

TEST_CASE("re-sharding: ranks that share an interface share its time") {
  // Two nodes of two, a slot each. New owners: e0 to d0, e1 to d2; e2 and e3, idle: both nodes are
  // as loaded and as free: d1, then d3.
  auto const ports =
      fssdp::port_bandwidth{.inside_bytes_per_second = 1000, .between_bytes_per_second = 10};
  auto const loads = std::vector<expert_loads>{{9, 9, 0, 0}};
  auto const current = layer_layouts{owned_by(4, {1, 0, 2, 3})};
  // e0 d1 to d0 stays inside; e1 d0 to d2 and e2 d2 to d1 cross, one each way; e3 stays.
  auto const solve = resharding<>{.seconds_per_row = 1, .chunk_bytes = 100};
  for (auto const network :
       {fssdp::network_interface::per_rank, fssdp::network_interface::per_node}) {
    auto const topo = topology{{.nodes = 2, .ranks = 4, .ports = ports, .network = network}};
    auto const verdict = solve(current, loads, topo);
    REQUIRE(verdict.moved_seconds == 10.0);
    REQUIRE(verdict.gained_seconds == 0.0);
    REQUIRE(!verdict.layouts.has_value());
  }
  // Both experts of node 0 change places with both of node 1: two each way, one for each rank.
  auto const crossed = layer_layouts{owned_by(4, {2, 0, 3, 1})};
  auto const per_rank = topology{{.nodes = 2, .ranks = 4, .ports = ports}};
  auto const per_node = topology{
      {.nodes = 2, .ranks = 4, .ports = ports, .network = fssdp::network_interface::per_node}};
  REQUIRE(solve(crossed, loads, per_rank).moved_seconds == 10.0);
  REQUIRE(solve(crossed, loads, per_node).moved_seconds == 20.0);
  REQUIRE(solve(crossed, loads, per_node).moved_bytes == 200);
}

TEST_CASE("re-sharding: an expert that has replicas anyway does not count at its owner alone") {
  // e0 is on both ranks: 50 each. d0 has e3, 60 together, d1 e1 and e2, 100 together. New: e1 to
  // d0, e2 and e3 to d1, e0 to d0: 80 and 80. By owners alone it is 110 before and 130 then.
  auto const topo = topology{{.nodes = 1, .ranks = 2}};
  auto const current = layer_layouts{owned_by(2, {0, 1, 1, 0})};
  auto const loads = std::vector<expert_loads>{{100, 30, 20, 10}};
  auto const sharding = heterogeneous_sharding{.overlap = 1};
  auto const blind = resharding<>{.sharding = sharding, .seconds_per_row = 1};
  REQUIRE(blind(current, loads, topo).gained_seconds == -20.0);
  REQUIRE(!blind(current, loads, topo).layouts.has_value());
  auto const solve = resharding<heterogeneous_sharding, fssdp::sparse_materialization>{
      .sharding = sharding,
      .materialization = {.overlap = 1, .spare_slots = 1},
      .seconds_per_row = 1};
  REQUIRE(solve(current, loads, topo).gained_seconds == 20.0);
  REQUIRE(solve(current, loads, topo).layouts == layer_layouts{owned_by(2, {0, 0, 1, 1})});
}

TEST_CASE("re-sharding is never more expensive than staying") {
  auto seed = std::uint64_t{0};
  auto paid = 0;
  support::for_random_layers([&](support::random_layers const& of) {
    auto draw = support::dice{++seed};
    auto const current = layouts_for(of, seed);
    auto const solve = resharding<>{.sharding = {.overlap = of.overlap},
                                    .seconds_per_row = draw.between(0, 1000) * 1e-6,
                                    .chunk_bytes = static_cast<std::size_t>(
                                        draw.between(0, draw.chance(50) ? 10 : 1'000'000'000)),
                                    .iterations = draw.between(0, 100)};
    auto const verdict = solve(current, of.loads, of.topo);
    auto const next = solve.sharding(of.loads, of.topo);
    auto const stay = fullest_ranks(current, of.loads);
    auto const gain = stay - fullest_ranks(next, of.loads);
    REQUIRE(verdict.gained_seconds / (solve.seconds_per_row * solve.iterations + 1e-300) ==
            Approx(solve.seconds_per_row * solve.iterations > 0 ? gain : 0.0)
                .margin(1e-9 * stay + 1e-9));
    auto const moved =
        seconds_of_moves(current, next, of.topo, static_cast<double>(solve.chunk_bytes));
    REQUIRE(verdict.moved_seconds == Approx(moved).margin(1e-15));
    REQUIRE(verdict.layouts.has_value() == (verdict.gained_seconds > verdict.moved_seconds));
    if (!verdict.layouts.has_value()) return;
    ++paid;
    REQUIRE(*verdict.layouts == next);
  });
  REQUIRE(paid > support::law_instances / 100);
}

TEST_CASE("re-sharding keeps the solver's own layouts, and those with equal loads") {
  support::for_random_layers([](support::random_layers const& of) {
    auto const solve =
        resharding<>{.sharding = {.overlap = of.overlap}, .seconds_per_row = 1, .iterations = 9};
    auto const own = solve.sharding(of.loads, of.topo);
    auto const verdict = solve(own, of.loads, of.topo);
    REQUIRE(!verdict.layouts.has_value());
    REQUIRE(verdict.gained_seconds == 0);
    REQUIRE(verdict.moved_seconds == 0);
    REQUIRE(verdict.moved_bytes == 0);
    auto const experts = static_cast<int>(of.loads.front().size());
    auto const dealt = layer_layouts(
        of.loads.size(), as_table(block_layout{{.experts = experts, .ranks = of.topo.ranks()}}));
    for (auto const load : {std::uint64_t{0}, std::uint64_t{7}}) {
      auto const equal =
          std::vector<expert_loads>(of.loads.size(), expert_loads(of.loads.front().size(), load));
      REQUIRE(!solve(dealt, equal, of.topo).layouts.has_value());
    }
  });
}

TEST_CASE("re-sharding: loads at the end of 64 bits do not overflow") {
  constexpr auto end = std::numeric_limits<std::uint64_t>::max();
  auto const topo = topology{{.nodes = 1, .ranks = 2}};
  auto const loads = std::vector<expert_loads>{{end, end, end, end}};
  auto const solve = resharding<>{.seconds_per_row = 1};
  REQUIRE(solve(layer_layouts{owned_by(2, {0, 0, 0, 1})}, loads, topo).gained_seconds ==
          Approx(static_cast<double>(end)));
}

TEST_CASE("re-sharding refuses what does not fit together, and names it") {
  auto const topo = topology{{.nodes = 1, .ranks = 2}};
  auto const current = std::vector{block_layout{{.experts = 4, .ranks = 2}}};
  auto const loads = std::vector<expert_loads>{{1, 2, 3, 4}};
  auto const solve = resharding<>{};
  REQUIRE_NOTHROW(solve(current, loads, topo));
  auto const two = std::vector<expert_loads>{{1, 2, 3, 4}, {1, 2, 3, 4}};
  REQUIRE_THROWS_AS(solve(current, two, topo), fssdp::argument_error);
  REQUIRE_THROWS_WITH(solve(current, two, topo), mentions("1 layers") && mentions("expected 2"));
  REQUIRE_THROWS_WITH(solve(current, std::vector<expert_loads>{{1, 2}}, topo),
                      mentions("layer 0 has 4 experts") && mentions("expected 2"));
  auto const wide = topology{{.nodes = 1, .ranks = 4}};
  REQUIRE_THROWS_WITH(solve(current, loads, wide), mentions("2 ranks") && mentions("on 4"));
  auto const sliced = std::vector{block_layout{{.experts = 4, .ranks = 2, .slices = 3}}};
  REQUIRE_THROWS_WITH(solve(sliced, loads, topo), mentions("3 slices"));
  auto const layers = layer_layouts(2, owned_by(2, {0, 1, 1, 0}));
  REQUIRE_THROWS_WITH(resharding<one_layout_sharding>{}(layers, two, topo),
                      mentions("layouts for 1 layers") && mentions("expected 2"));
  REQUIRE_THROWS_WITH((resharding<>{.seconds_per_row = -1}(current, loads, topo)),
                      mentions("seconds_per_row is -1"));
  REQUIRE_THROWS_WITH((resharding<>{.iterations = -2}(current, loads, topo)),
                      mentions("iterations is -2"));
}
