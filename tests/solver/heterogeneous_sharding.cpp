// SPDX-License-Identifier: Apache-2.0
/// Algorithm 2: cases worked by hand, laws, and a naive reference.
#include "fssdp/solver/heterogeneous_sharding.hpp"

#include <numeric>
#include <vector>

#include "catch.hpp"
#include "fssdp/core/error.hpp"
#include "support/naive_algorithm_2.hpp"
#include "support/random_layers.hpp"

using fssdp::expert_loads;
using fssdp::heterogeneous_sharding;
using fssdp::node_id;
using fssdp::rank_id;
using fssdp::topology;
using support::random_layers;

namespace {

using owner_lists = std::vector<std::vector<int>>;

/// [layer][expert]
[[nodiscard]] owner_lists owners(std::vector<fssdp::table_layout> const& layouts) {
  auto lists = owner_lists{};
  for (auto const& layout : layouts) {
    auto& list = lists.emplace_back();
    for (auto const expert : fssdp::first_n<fssdp::expert_id>(layout.experts()))
      list.push_back(layout.owner(expert).value());
  }
  return lists;
}

[[nodiscard]] owner_lists solved(int overlap, std::vector<expert_loads> const& loads,
                                 topology const& topo) {
  return owners(heterogeneous_sharding{.overlap = overlap}(loads, topo));
}

/// The numbers 0, 1, ... in any order.
[[nodiscard]] std::vector<std::size_t> shuffled(std::size_t count, support::dice& draw) {
  auto order = std::vector<std::size_t>(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  draw.shuffle(order);
  return order;
}

/// No two of them equal, in no layer and between none.
[[nodiscard]] std::vector<expert_loads> without_ties(std::vector<expert_loads> loads) {
  auto const all = loads.size() * loads.front().size();
  auto next = std::uint64_t{0};
  for (auto& layer : loads)
    for (auto& load : layer) load = load % 1'000'000 * all + next++;
  return loads;
}

}  // namespace

TEST_CASE("G4: two nodes of two, two layers of four") {
  // Two slots on each of d0, d1 | d2, d3. J is e0 in both layers: 8, and 5 before the equal e1.
  // Largest of J': 6 in layer 0, 5 in layer 1. So layer 0 comes first.
  //   layer 0   e1 (6): nothing is loaded, all are as free: d0.       n0 6 (d0 6)
  //             e2 (3): n1 is empty: d2.                              n1 3 (d2 3)
  //             e3 (1): n1 has less, d3 in it nothing.                n1 4 (d3 1)
  //   free: d0 1, d1 2 | d2 1, d3 1
  //   layer 1   e1 (5): no loads; n1 has fewer free slots (2 to 3); d2 and d3 have 1 each: d2.
  //             e2 (4): n0 is empty; d0 has fewer free slots (1 to 2): d0.
  //             e3 (2): n0 has 4, n1 has 5; d1 has nothing: d1.
  //   free: d0 0, d1 1 | d2 0, d3 1
  //   layer 0   e0 (8): n1 has 4, n0 has 6; only d3 is free: d3.
  //   layer 1   e0 (5): only n0 is free, and d1 in it: d1.
  auto const loads = std::vector<expert_loads>{{8, 6, 3, 1}, {5, 5, 4, 2}};
  auto const topo = topology{{.nodes = 2, .ranks = 4}};
  REQUIRE(solved(1, loads, topo) == owner_lists{{3, 0, 2, 3}, {1, 2, 0, 1}});
}

TEST_CASE("one node: experts without replicas go to the least loaded rank with room") {
  // Slots 2, 1, 1. No J: 9 to d1 or d2, which have fewer free slots: d1. 7 to d2. 5 to d0, empty.
  // 1: d0 alone is free.
  auto const one_node = topology{{.nodes = 1, .ranks = 3}};
  REQUIRE(solved(0, {{5, 9, 7, 1}}, one_node) == owner_lists{{0, 1, 2, 0}});
  // J = {9, 7}. 5 to d1, 1 to d2 (empty, fewer free than d0). 9 to d0; 7 to d0, alone free.
  REQUIRE(solved(2, {{5, 9, 7, 1}}, one_node) == owner_lists{{1, 0, 0, 2}});
}

TEST_CASE("the layer with the largest load without replicas goes first") {
  // A slot each. J is the 9 and the 8; 1 is left of layer 0, 3 of layer 1: that one first, to d0.
  auto const topo = topology{{.nodes = 1, .ranks = 4}};
  REQUIRE(solved(1, {{9, 1}, {8, 3}}, topo) == owner_lists{{3, 1}, {2, 0}});
  // Equal ones: layer 0 first, both times. J: 8 to d2, as d0 is taken by 3 and d1 is full.
  REQUIRE(solved(1, {{8, 3}, {9, 3}}, topo) == owner_lists{{2, 0}, {3, 1}});
}

TEST_CASE("nodes of different sizes: the load of the whole node counts") {
  // n0 = {d0, d2, d3}, n1 = {d1}; slots 2, 1, 1, 1. 6 to n1, with fewer free slots; its slot is
  // gone. 4 to n0: d2 (fewer free than d0). 3: d3. 2: d0. 1: d0, alone free.
  auto const topo = topology{{node_id{0}, node_id{1}, node_id{0}, node_id{0}}};
  REQUIRE(solved(0, {{1, 2, 3, 4, 6}}, topo) == owner_lists{{0, 0, 3, 2, 1}});
}

TEST_CASE("sums of loads do not wrap around at the end of 64 bits") {
  // Three slots on each of two ranks. Large ones to d0, d1, and d0 again, which then has 2^64: the
  // next two go to d1, and the last to d0, alone free.
  constexpr auto half = std::uint64_t{1} << 63;
  auto const topo = topology{{.nodes = 1, .ranks = 2}};
  REQUIRE(solved(0, {{half, half, half, 5, 4, 3}}, topo) == owner_lists{{0, 1, 0, 1, 1, 0}});
}

TEST_CASE("Algorithm 2 agrees with its naive reference") {
  support::for_random_layers([](random_layers const& of) {
    REQUIRE(solved(of.overlap, of.loads, of.topo) ==
            support::naive_algorithm_2(of.overlap, of.loads, of.topo));
  });
}

TEST_CASE("a rank owns L E / D experts, the first (L E) mod D ranks one more") {
  support::for_random_layers([](random_layers const& of) {
    auto const all = static_cast<int>(of.loads.size() * of.loads.front().size());
    auto expected = std::vector<int>{};
    for (int rank = 0; rank < of.topo.ranks(); ++rank)
      expected.push_back(all / of.topo.ranks() + (rank < all % of.topo.ranks() ? 1 : 0));
    auto owned = std::vector<int>(static_cast<std::size_t>(of.topo.ranks()));
    for (auto const& list : solved(of.overlap, of.loads, of.topo))
      for (auto const rank : list) ++owned[static_cast<std::size_t>(rank)];
    REQUIRE(owned == expected);
  });
}

TEST_CASE("relabelled layers get relabelled owners, if no two loads are equal") {
  support::for_random_layers([](random_layers const& of) {
    auto draw = support::dice{of.loads.size()};
    auto const loads = without_ties(of.loads);
    auto const overlap = std::min(of.overlap, static_cast<int>(loads.front().size()) - 1);
    auto const before = solved(overlap, loads, of.topo);
    auto relabelled = std::vector<expert_loads>{};
    auto expected = owner_lists{};
    for (auto const old : shuffled(loads.size(), draw)) {
      relabelled.push_back(loads[old]);
      expected.push_back(before[old]);
    }
    REQUIRE(solved(overlap, relabelled, of.topo) == expected);
  });
}

TEST_CASE("relabelled experts of a layer get relabelled owners, if no two loads are equal") {
  support::for_random_layers([](random_layers const& of) {
    auto draw = support::dice{of.loads.size()};
    auto loads = without_ties(of.loads);
    auto expected = solved(of.overlap, loads, of.topo);
    for (std::size_t layer = 0; layer < loads.size(); ++layer) {
      auto const before = loads[layer];
      auto const owner = expected[layer];
      auto const label = shuffled(before.size(), draw);  // [new] = old
      for (std::size_t e = 0; e < label.size(); ++e) {
        loads[layer][e] = before[label[e]];
        expected[layer][e] = owner[label[e]];
      }
    }
    REQUIRE(solved(of.overlap, loads, of.topo) == expected);
  });
}

TEST_CASE("an overlap beyond all experts is one of all experts, a negative one is refused") {
  auto const loads = std::vector<expert_loads>{{8, 6, 3, 1}, {5, 5, 4, 2}};
  auto const topo = topology{{.nodes = 2, .ranks = 4}};
  REQUIRE(solved(99, loads, topo) == solved(4, loads, topo));
  auto const solve = heterogeneous_sharding{.overlap = -1};
  REQUIRE_THROWS_AS(solve(loads, topo), fssdp::argument_error);
  REQUIRE_THROWS_WITH(solve(loads, topo), mentions("overlap is -1") && mentions("0 or more"));
}
