// SPDX-License-Identifier: Apache-2.0
// Limits that all policies of fssdp_sim keep on random loads, and results of some policies.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <vector>

#include "catch.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/routing/even_routing.hpp"
#include "fssdp_sim/layer_figures.hpp"
#include "fssdp_sim/policies/policies.hpp"
#include "fssdp_sim/split_loads.hpp"
#include "fssdp_sim/synthetic_loads.hpp"

namespace {

/// A question and what it points to.
struct asked_layer {
  asked_layer(int nodes, int ranks, int experts, std::uint64_t seed)
      : topology{{.nodes = nodes, .ranks = ranks}},
        loads{sim::synthetic_loads({.layers = 1,
                                    .experts = experts,
                                    .tokens = 100'003,
                                    .iterations = 1,
                                    .zipf = 1.5,
                                    .seed = seed})
                  .front()
                  .layers.front()},
        owners{fssdp::as_table(fssdp::block_layout{{.experts = experts, .ranks = ranks}})},
        counts{sim::split_loads(loads, ranks)} {}

  sim::layer_question question(int slots, sim::objective goal = sim::objective::time) const {
    return {.topology = &topology,
            .rates = {.forward_seconds_per_row = 1e-7,
                      .token_bytes = 2048,
                      .expert_bytes = 1 << 20U,
                      .window_seconds = 1e-4},
            .owners = &owners,
            .predicted = &loads,
            .counts = &counts,
            .slots = slots,
            .overlap = goal == sim::objective::balance ? owners.experts() : 3,
            .goal = goal};
  }

  fssdp::topology topology;
  fssdp::expert_loads loads;
  fssdp::table_layout owners;
  fssdp::token_counts counts;
};

sim::layer_figures figures(sim::policy const& which, sim::layer_question const& of) {
  return sim::figures_of(of, sim::answer_of(which, of), which.costs);
}

/// Whether owners change for nothing, by the policy's own idea.
bool may_move_owners(sim::policy const& of) {
  return of.name == "smartmoe" || of.name == "eplb" || of.costs.moves == sim::movement::sliced;
}

}  // namespace

TEST_CASE("no policy takes more memory than it has, moves owners or loses tokens") {
  for (auto const& [nodes, ranks, experts] :
       {std::tuple{1, 1, 3}, {1, 6, 4}, {2, 8, 16}, {3, 7, 20}, {4, 16, 8}})
    for (auto const slots : {0, 1, 3})
      for (auto const goal : {sim::objective::time, sim::objective::balance})
        for (std::uint64_t seed = 1; seed <= 3; ++seed) {
          auto const layer = asked_layer{nodes, ranks, experts, seed};
          auto const asked = layer.question(slots, goal);
          auto const owned = (experts + ranks - 1) / ranks;
          for (auto const& which : sim::policies) {
            CAPTURE(which.name, nodes, ranks, experts, slots, seed);
            auto const answer = sim::answer_of(which, asked);
            CHECK_NOTHROW(fssdp::check_contains(answer.where, answer.owners));
            if (!may_move_owners(which)) CHECK(answer.owners == layer.owners);
            for (auto const rank : fssdp::first_n<fssdp::rank_id>(ranks)) {
              auto const held = answer.where.held_count(rank);
              auto const mine = static_cast<int>(answer.owners.owned(rank).size());
              if (which.costs.moves == sim::movement::sliced || which.name == "eplb")
                CHECK(held <= owned + slots);
              else if (which.name != "fsdp")
                CHECK(held - mine <= slots);
              if (which.name == "smartmoe") CHECK(mine <= owned);
            }
            auto const tokens = sim::with_routing(answer, asked, [&](auto const& routing) {
              return fssdp::token_traffic{layer.counts, routing, layer.topology};
            });
            CHECK(std::accumulate(tokens.on_rank.begin(), tokens.on_rank.end(), std::uint64_t{0}) ==
                  100'003);
            auto const again = sim::answer_of(which, asked);
            CHECK(again.where == answer.where);
          }
        }
}

TEST_CASE("baselines that may do nothing are never worse than experts at their owners") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed)
    for (auto const goal : {sim::objective::time, sim::objective::balance}) {
      auto const layer = asked_layer{2, 8, 16, seed};
      auto const asked = layer.question(2, goal);
      auto const base = sim::price(figures(sim::ep, asked), goal);
      for (auto const* which : {&sim::fastermoe, &sim::smartmoe, &sim::flexmoe}) {
        CAPTURE(which->name);
        CHECK(sim::price(figures(*which, asked), goal) <= base);
      }
    }
}

TEST_CASE("even routing by lists is even routing") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto const layer = asked_layer{3, 11, 9, seed};
    auto random = sim::detail::dice{seed};
    auto where = fssdp::placement{layer.owners};
    for (int n = 0; n < 20; ++n)
      where.add(fssdp::expert_id{static_cast<int>(random.below(9))},
                fssdp::rank_id{static_cast<int>(random.below(11))});
    using flow = std::tuple<int, int, int, std::uint64_t>;
    auto const flows = [&](auto const& routing) {
      auto all = std::vector<flow>{};
      for (auto const source : fssdp::first_n<fssdp::rank_id>(11))
        for (auto const expert : fssdp::first_n<fssdp::expert_id>(9))
          routing(source, expert, layer.counts(source, expert),
                  [&](fssdp::rank_id to, std::uint64_t tokens) {
                    all.emplace_back(source.value(), expert.value(), to.value(), tokens);
                  });
      return all;
    };
    CHECK(flows(sim::listed_even_routing{where, layer.topology}) ==
          flows(fssdp::even_routing{where, layer.topology}));
  }
}

TEST_CASE("each replica goes to the expert with the most load per replica") {
  CHECK(sim::replica_counts({100, 40, 30}, 3, 8) == std::vector{1, 1, 1});
  CHECK(sim::replica_counts({100, 40, 30}, 5, 8) == std::vector{3, 1, 1});
  CHECK(sim::replica_counts({100, 40, 30}, 6, 8) == std::vector{3, 2, 1});
  CHECK(sim::replica_counts({100, 40, 30}, 9, 2) == std::vector{2, 2, 2});
  CHECK(sim::replica_counts({10, 10}, 3, 8) == std::vector{2, 1});
}

TEST_CASE("relocated owners even out nodes, then devices") {
  auto const topo = fssdp::topology{{.nodes = 2, .ranks = 4}};
  auto const owners = sim::relocated(topo, {8, 7, 6, 5, 4, 3, 2, 1});
  auto of = std::vector<int>{};
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(8))
    of.push_back(owners.owner(expert).value());
  // 8 to node 0; 7, 6 to node 1; 5 to node 0 (8 < 13); 13 and 13: 4 to node 0; 3 to node 1; ...
  CHECK(of == std::vector{0, 2, 3, 1, 1, 3, 2, 0});
}
