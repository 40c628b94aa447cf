// SPDX-License-Identifier: Apache-2.0
/// Tokens go where shares are: laws.
#include "fssdp/routing/balanced_routing.hpp"

#include <algorithm>
#include <vector>

#include "catch.hpp"
#include "fssdp/routing/even_routing.hpp"
#include "fssdp/routing/token_traffic.hpp"
#include "support/golden_dispatch.hpp"
#include "support/laws.hpp"
#include "support/random_counts.hpp"
#include "support/routed_tokens.hpp"

using fssdp::balanced_routing;
using fssdp::balanced_shares;
using fssdp::expert_id;
using fssdp::node_id;
using fssdp::rank_id;
using fssdp::token_counts;
using support::random_instance;
using support::routed;

namespace {

/// Tokens that each rank works on, of each expert: [expert][rank].
[[nodiscard]] std::vector<std::vector<std::uint64_t>> shares_of(random_instance const& of,
                                                                token_counts const& counts) {
  auto const shares = balanced_shares{of.where, of.topo, fssdp::token_demand{counts, of.topo}};
  auto result = std::vector(static_cast<std::size_t>(counts.experts()),
                            std::vector<std::uint64_t>(static_cast<std::size_t>(counts.ranks())));
  for (auto const expert : fssdp::first_n<expert_id>(counts.experts()))
    for (auto const& host : shares.hosts(expert))
      for (auto const& [rank, tokens] : shares.replicas(host))
        result[expert.index()][rank.index()] = tokens;
  return result;
}

}  // namespace

TEST_CASE("balanced, the fullest device of G5 works on the expert that it alone holds") {
  auto const of = support::golden_dispatch{};
  auto const even = fssdp::token_traffic{of.counts, fssdp::even_routing{of.where}};
  auto const found = fssdp::token_traffic{of.counts, balanced_routing{of.counts, of.where}};
  REQUIRE(std::ranges::max(even.on_rank) > 12);
  REQUIRE(std::ranges::max(found.on_rank) == 12);
  REQUIRE(found.on_rank[2] == 12);
}

TEST_CASE("no token is lost, all go to holders, and receivers get their shares") {
  support::for_random_instances([seed = std::uint64_t{0}](random_instance const& of) mutable {
    auto const counts = support::few_or_many_counts(of, ++seed);
    auto const shares = shares_of(of, counts);
    auto sent = std::vector(shares.size(), std::vector<std::uint64_t>(shares.front().size()));
    auto received = sent;
    auto wrong = 0;
    for (auto const& [way, tokens] : routed(counts, balanced_routing{counts, of.where, of.topo})) {
      auto const& [expert, from, to] = way;
      wrong += tokens == 0 || !of.where.holds(to, expert) ? 1 : 0;
      sent[expert.index()][from.index()] += tokens;
      received[expert.index()][to.index()] += tokens;
    }
    for (auto const expert : fssdp::first_n<expert_id>(counts.experts()))
      for (auto const rank : fssdp::first_n<rank_id>(counts.ranks()))
        wrong += sent[expert.index()][rank.index()] != counts(rank, expert) ? 1 : 0;
    REQUIRE(wrong == 0);
    REQUIRE(received == shares);
  });
}

TEST_CASE("tokens stay on their rank, then on their node, as far as shares go") {
  support::for_random_instances([seed = std::uint64_t{0}](random_instance const& of) mutable {
    auto const counts = support::few_or_many_counts(of, ++seed);
    auto const shares = shares_of(of, counts);
    auto flows = routed(counts, balanced_routing{counts, of.where, of.topo});
    auto wrong = 0;
    for (auto const expert : fssdp::first_n<expert_id>(counts.experts()))
      for (auto const node : fssdp::first_n<node_id>(of.topo.nodes())) {
        auto counted = std::uint64_t{0};
        auto share = counted;
        auto inside = counted;
        for (auto const rank : of.topo.ranks_on(node)) {
          auto const own = shares[expert.index()][rank.index()];
          counted += counts(rank, expert);
          share += own;
          wrong += flows[{expert, rank, rank}] != std::min(own, counts(rank, expert)) ? 1 : 0;
          for (auto const to : of.topo.ranks_on(node)) inside += flows[{expert, rank, to}];
        }
        wrong += inside != std::min(share, counted) ? 1 : 0;
      }
    REQUIRE(wrong == 0);
  });
}

TEST_CASE("routing balanced again is the same, receivers are emitted ascending and once") {
  support::for_random_instances([seed = std::uint64_t{0}](random_instance const& of) mutable {
    auto const counts = support::few_or_many_counts(of, ++seed);
    auto const routing = balanced_routing{counts, of.where, of.topo};
    auto const flows = routed(counts, routing);
    REQUIRE(flows == routed(counts, routing));
    REQUIRE(flows == routed(counts, balanced_routing{counts, of.where, of.topo}));
    REQUIRE(routing.where() == of.where);
    auto wrong = 0;
    for (auto const expert : fssdp::first_n<expert_id>(counts.experts()))
      for (auto const source : fssdp::first_n<rank_id>(counts.ranks())) {
        auto last = -1;
        routing(source, expert, counts(source, expert), [&](rank_id to, std::uint64_t) {
          wrong += to.value() <= last ? 1 : 0;
          last = to.value();
        });
      }
    REQUIRE(wrong == 0);
  });
}

TEST_CASE("rows per rank and bytes per port agree with the shares") {
  support::for_random_instances([seed = std::uint64_t{0}](random_instance const& of) mutable {
    auto const counts = support::few_or_many_counts(of, ++seed);
    auto const shares = balanced_shares{of.where, of.topo, fssdp::token_demand{counts, of.topo}};
    auto const found =
        fssdp::token_traffic{counts, balanced_routing{counts, of.where, of.topo}, of.topo};
    REQUIRE(std::ranges::equal(found.on_rank, shares.loads()));
    REQUIRE(std::ranges::equal(found.into_node, shares.into_node()));
    REQUIRE(std::ranges::equal(found.out_of_node, shares.out_of_node()));
  });
}

TEST_CASE("on one node the fullest rank has no more than under the paper's rule") {
  auto less = 0;
  support::for_random_instances([&, seed = std::uint64_t{0}](random_instance const& of) mutable {
    auto const counts = support::few_or_many_counts(of, ++seed);
    auto const even = fssdp::token_traffic{counts, fssdp::even_routing{of.where}};
    auto const found = fssdp::token_traffic{counts, balanced_routing{counts, of.where}};
    REQUIRE(std::ranges::max(found.on_rank) <= std::ranges::max(even.on_rank));
    less += std::ranges::max(found.on_rank) < std::ranges::max(even.on_rank) ? 1 : 0;
  });
  REQUIRE(less > support::law_instances / 4);
}

TEST_CASE("a balanced routing refuses other counts than it was made for") {
  auto const of = support::golden_dispatch{};
  auto const routing = balanced_routing{of.counts, of.where, of.topo};
  auto emitted = 0;
  auto const count = [&](rank_id, std::uint64_t) { ++emitted; };
  REQUIRE_THROWS_AS(routing(rank_id{1}, expert_id{2}, 4, count), fssdp::argument_error);
  REQUIRE_THROWS_WITH(routing(rank_id{1}, expert_id{2}, 4, count),
                      mentions("rank 1 routes 4 tokens for expert 2") && mentions("expected 3"));
  REQUIRE(emitted == 0);
}

TEST_CASE("impossible input of a balanced routing is an error that names it") {
  auto const of = support::golden_dispatch{};
  auto const make = [&](token_counts const& counts, fssdp::topology const& topo = {}) {
    return balanced_routing{counts, of.where, topo};
  };
  constexpr auto half = std::uint64_t{1} << 47;
  auto values = std::vector<std::uint64_t>(12);
  values[0] = half;
  values[11] = half - 1;
  REQUIRE_NOTHROW(make({4, 3, values}));
  values[11] = half;
  REQUIRE_THROWS_AS(make({4, 3, values}), fssdp::argument_error);
  REQUIRE_THROWS_WITH(make({4, 3, values}), mentions("less than 2^48"));
  values[11] = ~std::uint64_t{0};
  REQUIRE_THROWS_AS(make({4, 3, values}), fssdp::argument_error);
  REQUIRE_THROWS_WITH(make({5, 3, std::vector<std::uint64_t>(15)}),
                      mentions("counts of 5 ranks") && mentions("4 and 3"));
  REQUIRE_THROWS_WITH(make({4, 2, std::vector<std::uint64_t>(8)}), mentions("2 experts"));
  REQUIRE_THROWS_WITH(make(of.counts, fssdp::topology{{.nodes = 2, .ranks = 5}}),
                      mentions("topology has 5"));
}
