// SPDX-License-Identifier: Apache-2.0
/// Chains over nodes: complete, in ring order, and as balanced as exhaustive search can make them.
#include "fssdp/plan/node_chain.hpp"

#include <algorithm>

#include "catch.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"
#include "support/lists.hpp"

using fssdp::node_demand;
using fssdp::node_id;

namespace {

[[nodiscard]] std::vector<node_demand> random_demands(support::dice& draw, int experts, int nodes) {
  auto demands = std::vector<node_demand>{};
  for (int e = 0; e < experts; ++e) {
    auto demand = node_demand{node_id{draw.between(0, nodes - 1)}, {}};
    for (auto const node : fssdp::first_n<node_id>(nodes))
      if (node != demand.owner_node && draw.chance(60)) demand.wanted.push_back(node);
    demands.push_back(demand);
  }
  return demands;
}

/// What the busiest node sends if chain e ends at leaf[e].
[[nodiscard]] int busiest(std::vector<node_demand> const& demands, std::vector<node_id> const& leaf,
                          int nodes) {
  auto out = std::vector<int>(static_cast<std::size_t>(nodes));
  for (std::size_t e = 0; e < demands.size(); ++e) {
    if (demands[e].wanted.empty()) continue;
    ++out[demands[e].owner_node.index()];
    for (auto const node : demands[e].wanted) ++out[node.index()];
    --out[leaf[e].index()];
  }
  return std::ranges::max(out);
}

/// The least that any choice of leaves achieves: tries them all.
[[nodiscard]] int least_busiest(std::vector<node_demand> const& demands, std::vector<node_id>& leaf,
                                std::size_t from, int nodes) {
  if (from == demands.size()) return busiest(demands, leaf, nodes);
  if (demands[from].wanted.empty()) return least_busiest(demands, leaf, from + 1, nodes);
  auto least = 1 << 30;
  for (auto const node : demands[from].wanted) {
    leaf[from] = node;
    least = std::min(least, least_busiest(demands, leaf, from + 1, nodes));
  }
  return least;
}

}  // namespace

TEST_CASE("a chain visits the wanted nodes, in ring order behind its leaf") {
  for (int seed = 1; seed <= support::law_instances; ++seed) {
    CAPTURE(seed);
    auto draw = support::dice{static_cast<std::uint64_t>(seed)};
    auto const nodes = draw.between(1, 9);
    auto const demands = random_demands(draw, draw.between(1, 20), nodes);
    auto const chains = fssdp::node_chains(demands, nodes);
    REQUIRE(chains.size() == demands.size());
    auto wrong = 0;
    for (std::size_t e = 0; e < demands.size(); ++e) {
      auto const owner_node = demands[e].owner_node;
      auto ring = demands[e].wanted;  // nearest after the owner's node first
      auto const distance = [&](node_id node) {
        return (node.value() - owner_node.value() + nodes) % nodes;
      };
      std::ranges::sort(ring, {}, distance);
      auto is_rotation = ring.empty() && chains[e].empty();
      for (std::size_t turn = 0; turn < ring.size(); ++turn) {
        std::rotate(ring.begin(), ring.begin() + 1, ring.end());
        is_rotation = is_rotation || ring == chains[e];
      }
      wrong += is_rotation ? 0 : 1;
    }
    REQUIRE(wrong == 0);
  }
}

TEST_CASE("no other choice of leaves makes the busiest node send less") {
  for (int seed = 1; seed <= support::law_instances; ++seed) {
    CAPTURE(seed);
    auto draw = support::dice{static_cast<std::uint64_t>(seed)};
    auto const nodes = draw.between(2, 5);
    auto const demands = random_demands(draw, draw.between(1, 5), nodes);
    auto leaf = std::vector<node_id>(demands.size());
    auto const least = least_busiest(demands, leaf, 0, nodes);
    auto const chains = fssdp::node_chains(demands, nodes);
    for (std::size_t e = 0; e < demands.size(); ++e)
      if (!chains[e].empty()) leaf[e] = chains[e].back();
    REQUIRE(busiest(demands, leaf, nodes) == least);
  }
}

TEST_CASE("without demand there is no chain") {
  REQUIRE(fssdp::node_chains({}, 3).empty());
  auto const chains = fssdp::node_chains({{node_id{1}, {}}}, 3);
  REQUIRE(chains.size() == 1);
  REQUIRE(chains.front().empty());
}
