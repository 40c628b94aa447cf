// SPDX-License-Identifier: Apache-2.0
/// Where tokens go: a case worked by hand, and laws against a naive rule.
#include "fssdp/token/token_plan.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "catch.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "support/laws.hpp"
#include "support/naive_routing.hpp"
#include "support/random_counts.hpp"

using fssdp::expert_id;
using fssdp::placement;
using fssdp::rank_id;
using fssdp::token_counts;
using fssdp::token_plan;
using support::random_instance;

namespace {

/// The plans of all ranks.
[[nodiscard]] std::vector<token_plan> plans_of(random_instance const& of,
                                               token_counts const& counts) {
  auto plans = std::vector<token_plan>{};
  for (auto const rank : fssdp::first_n<rank_id>(of.layout.ranks()))
    plans.emplace_back(counts, of.where, rank, of.topo);
  return plans;
}

/// Tokens by (expert, source, receiver).
using flow = std::map<std::tuple<expert_id, rank_id, rank_id>, std::size_t>;

[[nodiscard]] flow naive_flow(random_instance const& of, token_counts const& counts) {
  auto result = flow{};
  for (auto const expert : fssdp::first_n<expert_id>(counts.experts()))
    for (auto const source : fssdp::first_n<rank_id>(counts.ranks()))
      for (auto const to : support::naive_receivers(of.where, of.topo, source, expert,
                                                    static_cast<int>(counts(source, expert))))
        ++result[{expert, source, to}];
  return result;
}

}  // namespace

TEST_CASE("G5: local first, then the node, then all ranks") {
  constexpr auto a = expert_id{0};
  constexpr auto b = expert_id{1};
  constexpr auto c = expert_id{2};
  auto const topo = fssdp::topology{{.nodes = 2, .ranks = 4}};
  auto where = placement{support::reversed_layout{4, {rank_id{0}, rank_id{2}, rank_id{0}}}};
  where.add(a, rank_id{3});
  where.add(c, rank_id{1});
  where.add(c, rank_id{2});
  auto const counts = token_counts{4, 3, {4, 3, 2, 5, 1, 3, 3, 2, 4, 2, 6, 5}};

  auto between = std::vector<std::size_t>(2);  // [from node]
  auto inside_in = std::vector<std::size_t>(4);
  auto inside_out = inside_in;
  for (auto const rank : fssdp::first_n<rank_id>(4)) {
    auto const plan = token_plan{counts, where, rank, topo};
    auto const loads = plan.device_loads();
    REQUIRE(std::vector(loads.begin(), loads.end()) == std::vector<std::uint64_t>{11, 3, 21, 5});
    for (auto const& s : plan.sends()) {
      if (s.peer == rank) continue;
      if (topo.same_node(s.peer, rank)) {
        inside_out[rank.index()] += s.rows;
        inside_in[s.peer.index()] += s.rows;
      } else {
        between[topo.node(rank).index()] += s.rows;
      }
    }
  }
  REQUIRE(between == std::vector<std::size_t>{4, 0});
  REQUIRE(inside_in == std::vector<std::size_t>{5, 0, 11, 3});
  REQUIRE(inside_out == std::vector<std::size_t>{0, 5, 3, 11});
  REQUIRE(counts.loads() == fssdp::expert_loads{14, 12, 14});
  REQUIRE(counts(rank_id{3}, b) == 6);
}

TEST_CASE("tokens go where the naive rule sends them, seen from both ends") {
  support::for_random_instances([seed = std::uint64_t{0}](random_instance const& of) mutable {
    auto const counts = support::random_counts(of, ++seed);
    auto sent = flow{};
    auto received = flow{};
    auto empty = 0;
    for (auto const& plan : plans_of(of, counts)) {
      for (auto const& s : plan.sends()) {
        sent[{s.expert, plan.rank(), s.peer}] += s.rows;
        empty += s.rows == 0 ? 1 : 0;
      }
      for (auto const& s : plan.receives()) received[{s.expert, s.peer, plan.rank()}] += s.rows;
    }
    auto const expected = naive_flow(of, counts);
    REQUIRE(sent == expected);
    REQUIRE(received == expected);
    REQUIRE(empty == 0);
  });
}

TEST_CASE("no token is lost, and all go to holders, none leaves a rank or a node that holds") {
  support::for_random_instances([seed = std::uint64_t{0}](random_instance const& of) mutable {
    auto const counts = support::random_counts(of, ++seed);
    auto const all =
        std::accumulate(counts.values().begin(), counts.values().end(), std::uint64_t{0});
    auto wrong = 0;
    for (auto const& plan : plans_of(of, counts)) {
      auto const me = plan.rank();
      auto const loads = plan.device_loads();
      wrong += std::accumulate(loads.begin(), loads.end(), std::uint64_t{0}) != all ? 1 : 0;
      wrong += plan.received_rows() != loads[me.index()] ? 1 : 0;
      auto per_expert = std::vector<std::uint64_t>(static_cast<std::size_t>(counts.experts()));
      for (auto const& s : plan.sends()) {
        per_expert[s.expert.index()] += s.rows;
        auto on_node = false;
        for (auto const rank : of.where.holders(s.expert))
          on_node = on_node || of.topo.same_node(rank, me);
        wrong += !of.where.holds(s.peer, s.expert) ? 1 : 0;
        wrong += of.where.holds(me, s.expert) && s.peer != me ? 1 : 0;
        wrong += on_node && !of.topo.same_node(s.peer, me) ? 1 : 0;
      }
      for (auto const expert : fssdp::first_n<expert_id>(counts.experts()))
        wrong += per_expert[expert.index()] != counts(me, expert) ? 1 : 0;
    }
    REQUIRE(wrong == 0);
  });
}

TEST_CASE(
    "sent rows are ordered by expert and receiver, received ones by expert and source, without "
    "gaps") {
  support::for_random_instances([seed = std::uint64_t{0}](random_instance const& of) mutable {
    auto const counts = support::random_counts(of, ++seed);
    auto wrong = 0;
    for (auto const& plan : plans_of(of, counts)) {
      auto const check = [&](std::span<fssdp::token_segment const> list, std::size_t rows) {
        auto next = std::size_t{0};
        for (std::size_t i = 0; i < list.size(); ++i) {
          wrong += list[i].first != next ? 1 : 0;
          next += list[i].rows;
          if (i == 0) continue;
          auto const before = std::tuple{list[i - 1].expert, list[i - 1].peer};
          wrong += before < std::tuple{list[i].expert, list[i].peer} ? 0 : 1;
        }
        wrong += next != rows ? 1 : 0;
      };
      check(plan.sends(), plan.sent_rows());
      check(plan.receives(), plan.received_rows());
    }
    REQUIRE(wrong == 0);
  });
}

TEST_CASE(
    "groups are the received rows of every held expert, ascending, also where there are none") {
  support::for_random_instances([seed = std::uint64_t{0}](random_instance const& of) mutable {
    auto const counts = support::random_counts(of, ++seed);
    auto wrong = 0;
    for (auto const& plan : plans_of(of, counts)) {
      auto expected = std::vector<fssdp::expert_rows>{};
      auto next = std::size_t{0};
      for (auto const expert : of.plan.materialized(plan.rank())) {
        auto rows = std::size_t{0};
        for (auto const& s : plan.receives()) rows += s.expert == expert ? s.rows : 0;
        expected.push_back({expert, next, rows});
        next += rows;
      }
      auto const groups = plan.groups();
      wrong += std::vector(groups.begin(), groups.end()) != expected ? 1 : 0;
    }
    REQUIRE(wrong == 0);
  });
}

TEST_CASE(
    "by rank, the same segments lie by peer and expert, and the list of each peer is theirs") {
  support::for_random_instances([seed = std::uint64_t{0}](random_instance const& of) mutable {
    auto const counts = support::random_counts(of, ++seed);
    auto wrong = 0;
    for (auto const& by_expert : plans_of(of, counts)) {
      auto const by_rank = token_plan{counts,
                                      of.where,
                                      by_expert.rank(),
                                      of.topo,
                                      {fssdp::row_order::by_rank, fssdp::row_order::by_rank}};
      wrong += by_rank.hash_value() == by_expert.hash_value() ? 1 : 0;
      auto const check = [&](auto sorted, auto const& found, auto of_peer) {
        auto next = std::size_t{0};
        std::ranges::stable_sort(sorted, {}, &fssdp::token_segment::peer);
        auto of_peers = std::vector<fssdp::token_segment>{};
        for (auto const rank : fssdp::first_n<rank_id>(of.layout.ranks()))
          for (auto const& s : of_peer(by_expert, rank)) of_peers.push_back(s);
        wrong += of_peers != sorted ? 1 : 0;
        for (auto& s : sorted) {
          s.first = next;
          next += s.rows;
        }
        wrong += !std::ranges::equal(found, sorted) ? 1 : 0;
        of_peers.clear();
        for (auto const rank : fssdp::first_n<rank_id>(of.layout.ranks()))
          for (auto const& s : of_peer(by_rank, rank)) of_peers.push_back(s);
        wrong += of_peers != sorted ? 1 : 0;
      };
      auto const list = [](auto const& span) { return std::vector(span.begin(), span.end()); };
      check(list(by_expert.sends()), by_rank.sends(),
            [](token_plan const& plan, rank_id peer) { return plan.sent_to(peer); });
      check(list(by_expert.receives()), by_rank.receives(),
            [](token_plan const& plan, rank_id peer) { return plan.received_from(peer); });
      auto const groups = by_rank.groups();
      wrong += groups.size() != by_rank.receives().size() ? 1 : 0;
      for (std::size_t i = 0; i < groups.size(); ++i) {
        auto const& s = by_rank.receives()[i];
        wrong += groups[i] != fssdp::expert_rows{s.expert, s.first, s.rows} ? 1 : 0;
      }
    }
    REQUIRE(wrong == 0);
  });
}

TEST_CASE("rows by expert are found again where they are sent from") {
  support::for_random_instances([seed = std::uint64_t{0}](random_instance const& of) mutable {
    auto const counts = support::random_counts(of, ++seed);
    auto wrong = 0;
    for (auto const& plan : plans_of(of, counts)) {
      auto const in_place = plan.rows_by_expert();
      for (std::size_t i = 0; i < in_place.size(); ++i) wrong += in_place[i] != i ? 1 : 0;
      auto const by_rank =
          token_plan{counts, of.where, plan.rank(), of.topo, {.sent = fssdp::row_order::by_rank}};
      auto const rows = by_rank.rows_by_expert();
      wrong += rows.size() != plan.sent_rows() ? 1 : 0;
      for (auto const& s : plan.sends()) {
        auto const sent = by_rank.sent_to(s.peer);
        auto const there = std::ranges::find(sent, s.expert, &fssdp::token_segment::expert);
        for (std::size_t i = 0; i < s.rows; ++i)
          wrong += rows[s.first + i] != there->first + i ? 1 : 0;
      }
    }
    REQUIRE(wrong == 0);
  });
}

TEST_CASE("all ranks compute the same hash, and another one for other counts") {
  support::for_random_instances([seed = std::uint64_t{0}](random_instance const& of) mutable {
    auto const counts = support::random_counts(of, ++seed);
    auto const plans = plans_of(of, counts);
    auto differing = 0;
    for (auto const& plan : plans) differing += plan.hash_value() != plans[0].hash_value() ? 1 : 0;
    REQUIRE(differing == 0);
    auto values = std::vector(counts.values().begin(), counts.values().end());
    ++values[seed % values.size()];
    auto const others = plans_of(of, token_counts{counts.ranks(), counts.experts(), values});
    REQUIRE(others[0].hash_value() != plans[0].hash_value());
  });
}

TEST_CASE("an even split differs by at most one, and the surplus begins at the source's number") {
  for (std::uint64_t receivers = 1; receivers <= 6; ++receivers)
    for (std::uint64_t tokens = 0; tokens <= 15; ++tokens)
      for (int source = 0; source < 8; ++source) {
        auto sum = std::uint64_t{0};
        for (std::uint64_t i = 0; i < receivers; ++i) {
          auto const share = fssdp::even_share(tokens, receivers, rank_id{source}, i);
          auto const k = static_cast<int>(receivers);
          auto const turn = ((static_cast<int>(i) - source) % k + k) % k;
          REQUIRE(share ==
                  tokens / receivers + (turn < static_cast<int>(tokens % receivers) ? 1U : 0U));
          sum += share;
        }
        REQUIRE(sum == tokens);
      }
}

TEST_CASE("counts, placements and ranks that do not match are errors that name them") {
  auto const where = placement{fssdp::block_layout{{.experts = 3, .ranks = 2}}};
  auto const counts = token_counts{2, 3, std::vector<std::uint64_t>(6)};
  auto const refuses = [&](token_counts const& tokens, int rank, fssdp::topology const& topo,
                           char const* a, char const* b) {
    auto const make = [&] { return token_plan{tokens, where, rank_id{rank}, topo}; };
    REQUIRE_THROWS_AS(make(), fssdp::argument_error);
    REQUIRE_THROWS_WITH(make(), mentions(a) && mentions(b));
  };
  REQUIRE_NOTHROW(token_plan{counts, where, rank_id{1}});
  refuses(token_counts{3, 3, std::vector<std::uint64_t>(9)}, 0, {}, "counts of 3 ranks", "2 and 3");
  refuses(token_counts{2, 4, std::vector<std::uint64_t>(8)}, 0, {}, "4 experts", "2 and 3");
  refuses(counts, 2, {}, "rank 2", "0 to 1");
  refuses(counts, -1, {}, "rank -1", "0 to 1");
  refuses(counts, 0, fssdp::topology{{.nodes = 1, .ranks = 3}}, "topology has 3", "expected 2");
}
