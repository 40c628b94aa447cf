// SPDX-License-Identifier: Apache-2.0
/// Shares of tokens: as even as can be on one node, and between nodes as ports allow.
#include "fssdp/routing/balanced_shares.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "catch.hpp"
#include "support/emptiest_possible.hpp"
#include "support/laws.hpp"
#include "support/lists.hpp"
#include "support/naive_pour.hpp"
#include "support/random_counts.hpp"

using fssdp::balanced_shares;
using fssdp::expert_id;
using fssdp::node_id;
using fssdp::rank_id;
using fssdp::token_demand;
using support::random_instance;

namespace {

using tokens_of_each = std::vector<std::uint64_t>;

[[nodiscard]] tokens_of_each copy_of(std::span<std::uint64_t const> values) {
  return {values.begin(), values.end()};
}

/// Everything that shares say.
struct all_shares {
  tokens_of_each loads, into, out;
  std::vector<std::tuple<expert_id, node_id, rank_id, std::uint64_t>> replicas;

  all_shares(balanced_shares const& of, int experts)
      : loads{copy_of(of.loads())}, into{copy_of(of.into_node())}, out{copy_of(of.out_of_node())} {
    for (auto const expert : fssdp::first_n<expert_id>(experts))
      for (auto const& host : of.hosts(expert))
        for (auto const& [rank, tokens] : of.replicas(host))
          replicas.emplace_back(expert, host.node, rank, tokens);
  }
  friend bool operator==(all_shares const&, all_shares const&) = default;
};

/// The busiest port between nodes if all tokens stay whose node hosts their expert, and all others
/// are poured over its hosts: experts with fewest hosts first, then those with most tokens to pour.
[[nodiscard]] std::uint64_t busiest_if_all_stay(fssdp::placement const& where,
                                                fssdp::topology const& topo,
                                                token_demand const& demand) {
  struct leaving {
    std::vector<node_id> hosts;
    std::uint64_t tokens = 0;
  };
  auto experts = std::vector<leaving>{};
  auto into = tokens_of_each(static_cast<std::size_t>(topo.nodes()));
  auto out = into;
  for (auto const expert : fssdp::first_n<expert_id>(where.experts())) {
    auto& of = experts.emplace_back();
    for (auto const node : fssdp::first_n<node_id>(topo.nodes())) {
      auto const holds = [&](rank_id rank) { return where.holds(rank, expert); };
      if (std::ranges::any_of(topo.ranks_on(node), holds)) {
        of.hosts.push_back(node);
      } else {
        of.tokens += demand(node, expert);
        out[node.index()] += demand(node, expert);
      }
    }
  }
  std::ranges::stable_sort(experts, [](leaving const& a, leaving const& b) {
    return std::tuple{a.hosts.size(), b.tokens} < std::tuple{b.hosts.size(), a.tokens};
  });
  for (auto const& of : experts) {
    auto levels = tokens_of_each{};
    for (auto const node : of.hosts) levels.push_back(into[node.index()]);
    auto const poured = support::naive_pour(levels, of.tokens);
    for (std::size_t i = 0; i < poured.size(); ++i) into[of.hosts[i].index()] += poured[i];
  }
  return std::max(std::ranges::max(into), std::ranges::max(out));
}

}  // namespace

TEST_CASE("two ranks share what both hold, beside what each holds alone") {
  auto where = fssdp::placement{support::reversed_layout{2, {rank_id{0}, rank_id{0}, rank_id{1}}}};
  where.add(expert_id{1}, rank_id{1});
  auto const topo = fssdp::topology{{.nodes = 1, .ranks = 2}};
  auto demand = token_demand{1, 3};
  std::ranges::copy(tokens_of_each{10, 21, 4}, demand.of(node_id{0}).begin());
  auto const shares = balanced_shares{where, topo, demand};
  REQUIRE(copy_of(shares.loads()) == tokens_of_each{17, 18});
  auto const& host = shares.hosts(expert_id{1}).front();
  REQUIRE(shares.replicas(host)[0].tokens == 7);
  REQUIRE(shares.replicas(host)[1].tokens == 14);
}

TEST_CASE("load is balanced along a chain of ranks that share experts pairwise") {
  auto const owners = std::vector{rank_id{0}, rank_id{0}, rank_id{1}, rank_id{2}};
  auto where = fssdp::placement{support::reversed_layout{4, owners}};
  for (int expert = 1; expert < 4; ++expert) where.add(expert_id{expert}, rank_id{expert});
  auto const topo = fssdp::topology{{.nodes = 1, .ranks = 4}};
  auto demand = token_demand{1, 4};
  std::ranges::copy(tokens_of_each{1000, 1000, 1000, 1000}, demand.of(node_id{0}).begin());
  auto const shares = balanced_shares{where, topo, demand};
  REQUIRE(std::ranges::max(shares.loads()) <= 1010);
}

TEST_CASE("shares add up: on ranks, for every expert, and through ports") {
  support::for_random_instances([seed = std::uint64_t{0}](random_instance const& of) mutable {
    auto const counts = support::few_or_many_counts(of, ++seed);
    auto const demand = token_demand{counts, of.topo};
    auto const shares = balanced_shares{of.where, of.topo, demand};
    auto loads = tokens_of_each(shares.loads().size());
    auto into = tokens_of_each(shares.into_node().size());
    auto out = into;
    auto const total = counts.loads();
    auto const holders_of = support::holders(of.where);
    auto wrong = 0;
    for (auto const expert : fssdp::first_n<expert_id>(counts.experts())) {
      auto sum = std::uint64_t{0};
      auto holders = std::vector<int>{};
      auto works = tokens_of_each(into.size());
      for (auto const& host : shares.hosts(expert)) {
        wrong += host.expert != expert ? 1 : 0;
        for (auto const& [rank, tokens] : shares.replicas(host)) {
          wrong += of.topo.node(rank) != host.node ? 1 : 0;
          holders.push_back(rank.value());
          loads[rank.index()] += tokens;
          works[host.node.index()] += tokens;
          sum += tokens;
        }
        wrong += works[host.node.index()] != host.tokens ? 1 : 0;
      }
      for (auto const node : fssdp::first_n<node_id>(of.topo.nodes())) {
        auto const own = demand(node, expert);
        into[node.index()] += works[node.index()] - std::min(works[node.index()], own);
        out[node.index()] += own - std::min(works[node.index()], own);
      }
      std::ranges::sort(holders);
      wrong += sum != total[expert.index()] ? 1 : 0;
      wrong += holders != holders_of[expert.index()] ? 1 : 0;
    }
    REQUIRE(wrong == 0);
    REQUIRE(copy_of(shares.loads()) == loads);
    REQUIRE(copy_of(shares.into_node()) == into);
    REQUIRE(copy_of(shares.out_of_node()) == out);
  });
}

TEST_CASE("on one node the fullest rank is as empty as can be, within 1 % and a token") {
  support::for_random_instances(
      support::law_instances / 4,
      [seed = std::uint64_t{0}](random_instance const& of) mutable {
        auto const counts = support::few_or_many_counts(of, ++seed);
        auto const demand = token_demand{counts};
        auto const shares = balanced_shares{
            of.where, fssdp::topology{{.nodes = 1, .ranks = counts.ranks()}}, demand};
        auto const least = support::emptiest_possible(of.where, counts.loads());
        auto const fullest = std::ranges::max(shares.loads());
        REQUIRE(fullest >= least);
        REQUIRE(static_cast<double>(fullest) <= 1.01 * static_cast<double>(least) + 1);
      },
      {.ranks = 12, .experts = 24});
}

TEST_CASE("evening out devices never makes the busiest port busier") {
  auto evener = 0;
  support::for_random_instances([&, seed = std::uint64_t{0}](random_instance const& of) mutable {
    auto const counts = support::random_counts(of, ++seed);
    auto const demand = token_demand{counts, of.topo};
    auto const shares = balanced_shares{of.where, of.topo, demand};
    auto const busiest =
        std::max(std::ranges::max(shares.into_node()), std::ranges::max(shares.out_of_node()));
    REQUIRE(busiest <= busiest_if_all_stay(of.where, of.topo, demand));
    for (auto const expert : fssdp::first_n<expert_id>(counts.experts()))
      for (auto const& host : shares.hosts(expert))
        evener += host.tokens < demand(host.node, expert) ? 1 : 0;  // some have left a host
  });
  REQUIRE(evener > 0);
}

TEST_CASE("shares that were made before, of other sizes, leave no trace") {
  auto reused = balanced_shares{};
  auto seed = std::uint64_t{0};
  support::for_random_instances([&](random_instance const& of) {
    auto const demand = token_demand{support::few_or_many_counts(of, ++seed), of.topo};
    auto const fresh = all_shares{{of.where, of.topo, demand}, of.where.experts()};
    reused.assign(of.where, of.topo, demand);
    REQUIRE(all_shares{reused, of.where.experts()} == fresh);
    reused.assign(of.where, of.topo, demand);
    REQUIRE(all_shares{reused, of.where.experts()} == fresh);
  });
}

TEST_CASE("without tokens all shares are empty") {
  auto const where = fssdp::placement{fssdp::block_layout{{.experts = 3, .ranks = 4}}};
  auto const topo = fssdp::topology{{.nodes = 2, .ranks = 4}};
  auto const shares = balanced_shares{where, topo, token_demand{2, 3}};
  REQUIRE(copy_of(shares.loads()) == tokens_of_each{0, 0, 0, 0});
  REQUIRE(copy_of(shares.into_node()) == tokens_of_each{0, 0});
  REQUIRE(shares.hosts(expert_id{2}).size() == 1);
}

TEST_CASE("placement, topology and demand of other sizes are refused by name") {
  auto const where = fssdp::placement{fssdp::block_layout{{.experts = 3, .ranks = 4}}};
  auto const topo = fssdp::topology{{.nodes = 2, .ranks = 4}};
  auto const of_five = fssdp::topology{{.nodes = 2, .ranks = 5}};
  REQUIRE_NOTHROW(balanced_shares{where, topo, token_demand{2, 3}});
  REQUIRE_THROWS_AS((balanced_shares{where, topo, token_demand{1, 3}}), fssdp::argument_error);
  REQUIRE_THROWS_WITH((balanced_shares{where, topo, token_demand{1, 3}}),
                      mentions("demand of 1 nodes") && mentions("the topology has 2 nodes"));
  REQUIRE_THROWS_WITH((balanced_shares{where, topo, token_demand{2, 2}}),
                      mentions("3 experts on 4 ranks") && mentions("for 2 experts"));
  REQUIRE_THROWS_WITH((balanced_shares{where, of_five, token_demand{2, 3}}),
                      mentions("on 4 ranks") && mentions("5 ranks"));
}
