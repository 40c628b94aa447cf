// SPDX-License-Identifier: Apache-2.0
/// Where mirrors lie: never on the node of their owner, evenly spread.
#include "fssdp/recovery/mirror_partners.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"

using fssdp::mirror_partners;
using fssdp::node_id;
using fssdp::rank_id;
using fssdp::topology;

namespace {

/// Ranks on nodes by chance, each of which has one.
[[nodiscard]] topology nodes_by_chance(support::dice& draw) {
  auto const nodes = draw.between(1, 5);
  auto node_of = std::vector<node_id>{};
  for (int node = 0; node < nodes; ++node) node_of.emplace_back(node);
  auto const more = draw.between(0, 12);
  auto const favourite = draw.between(0, nodes - 1);
  for (int i = 0; i < more; ++i)
    node_of.emplace_back(draw.chance(40) ? favourite : draw.between(0, nodes - 1));
  draw.shuffle(node_of);
  return topology{node_of};
}
[[nodiscard]] std::vector<std::size_t> bytes_by_chance(support::dice& draw, int ranks) {
  auto bytes = std::vector<std::size_t>{};
  for (int rank = 0; rank < ranks; ++rank)
    bytes.push_back(static_cast<std::size_t>(draw.between(0, 9)));
  return bytes;
}

/// The rank that has most memory for its own shard and its mirrors has so many bytes.
[[nodiscard]] std::size_t fullest(std::vector<std::size_t> const& first,
                                  std::vector<std::size_t> const& second) {
  auto most = std::size_t{0};
  for (std::size_t i = 0; i < first.size(); ++i) most = std::max(most, first[i] + second[i]);
  return most;
}

}  // namespace

TEST_CASE("a mirror lies on another node, and mirrors are spread evenly") {
  for (int seed = 1; seed <= support::law_instances; ++seed) {
    CAPTURE(seed);
    auto draw = support::dice{static_cast<std::uint64_t>(seed)};
    auto const topo = nodes_by_chance(draw);
    auto const bytes =
        draw.chance(50) ? bytes_by_chance(draw, topo.ranks()) : std::vector<std::size_t>{};
    auto const partners = mirror_partners{topo, bytes};
    REQUIRE(partners.ranks() == topo.ranks());
    REQUIRE(partners == mirror_partners{topo, bytes});
    auto largest = std::size_t{0};
    for (auto const node : fssdp::first_n<node_id>(topo.nodes()))
      largest = std::max(largest, topo.ranks_on(node).size());
    auto const all = static_cast<std::size_t>(topo.ranks());
    auto listed = std::size_t{0};
    for (auto const rank : fssdp::first_n<rank_id>(topo.ranks())) {
      auto const partner = partners.partner(rank);
      REQUIRE(partner.has_value() == (all > 1));
      auto const mirrors = partners.mirrored_on(rank);
      REQUIRE(std::ranges::is_sorted(mirrors));
      for (auto const other : mirrors) REQUIRE(partners.partner(other) == rank);
      listed += mirrors.size();
      if (!partner.has_value()) continue;
      REQUIRE(*partner != rank);
      if (topo.nodes() > 1) REQUIRE(!topo.same_node(*partner, rank));
      if (topo.nodes() == 1 || 2 * largest <= all) {
        REQUIRE(mirrors.size() == 1);
      } else if (topo.ranks_on(topo.node(rank)).size() == largest) {
        REQUIRE(mirrors.size() <= 1);
      } else {
        auto const others = all - largest;
        REQUIRE(mirrors.size() >= largest / others);
        REQUIRE(mirrors.size() <= (largest + others - 1) / others);
      }
    }
    REQUIRE(listed == (all > 1 ? all : 0));
  }
}

TEST_CASE("between two nodes no other choice of partners makes less of the fullest rank") {
  for (int seed = 1; seed <= support::law_instances / 10 + 1; ++seed) {
    CAPTURE(seed);
    auto draw = support::dice{static_cast<std::uint64_t>(seed)};
    auto const here = draw.between(1, 5);
    auto const topo = topology{{.nodes = 2, .ranks = 2 * here}};
    auto const bytes = bytes_by_chance(draw, topo.ranks());
    auto const partners = mirror_partners{topo, bytes};
    for (auto const node : fssdp::first_n<node_id>(2)) {
      auto own = std::vector<std::size_t>{};
      auto mirrored = std::vector<std::size_t>{};
      for (auto const rank : topo.ranks_on(node)) {
        own.push_back(bytes[rank.index()]);
        mirrored.push_back(bytes[partners.mirrored_on(rank).front().index()]);
      }
      auto const chosen = fullest(own, mirrored);
      std::ranges::sort(mirrored);
      auto least = fullest(own, mirrored);
      while (std::ranges::next_permutation(mirrored).found)
        least = std::min(least, fullest(own, mirrored));
      REQUIRE(chosen == least);
    }
  }
}

TEST_CASE("on nodes of equal size the partner has the same place on the next node") {
  auto const partners = mirror_partners{topology{{.nodes = 3, .ranks = 6}}};
  for (int rank = 0; rank < 6; ++rank)
    REQUIRE(partners.partner(rank_id{rank}) == rank_id{(rank + 2) % 6});
}

TEST_CASE("partners of no ranks, or by the bytes of other ranks, are refused") {
  REQUIRE_THROWS_WITH(mirror_partners{topology{}}, mentions("0 ranks"));
  auto const bytes = std::vector<std::size_t>{1, 2};
  REQUIRE_THROWS_WITH((mirror_partners{topology{{.nodes = 1, .ranks = 3}}, bytes}),
                      mentions("bytes of 2 ranks") && mentions("expected 3"));
}
