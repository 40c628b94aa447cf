// SPDX-License-Identifier: Apache-2.0
/// Tokens that are routed balanced: both ends of every transfer agree, and rows come back.
#include "fssdp/routing/balanced_routing.hpp"

#include <vector>

#include "catch.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/token/dispatch.hpp"
#include "fssdp/token/token_plan.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/random_counts.hpp"
#include "support/routed_tokens.hpp"

using fssdp::balanced_routing;
using fssdp::expert_id;
using fssdp::rank_id;
using fssdp::rows_view;
using fssdp::token_counts;
using fssdp::token_plan;
using support::random_instance;

namespace {

/// Rows of (source, expert), one for each token of a rank, by expert.
[[nodiscard]] std::vector<int> named_rows(token_counts const& counts, rank_id rank) {
  auto rows = std::vector<int>{};
  for (auto const expert : fssdp::first_n<expert_id>(counts.experts()))
    for (auto left = counts(rank, expert); left != 0; --left)
      rows.insert(rows.end(), {rank.value(), expert.value()});
  return rows;
}

/// Rows that are not of the expert and the source of their segment.
[[nodiscard]] int misplaced(token_plan const& plan, std::vector<int> const& received) {
  auto wrong = 0;
  for (auto const& of : plan.receives())
    for (auto row = of.first; row < of.first + of.rows; ++row)
      wrong += received[2 * row] != of.peer.value() || received[2 * row + 1] != of.expert.value();
  return wrong;
}

}  // namespace

TEST_CASE("a plan with balanced routing is the same at both ends, and on all ranks") {
  support::for_random_instances([seed = std::uint64_t{0}](random_instance const& of) mutable {
    auto const counts = support::random_counts(of, ++seed);
    auto const routing = balanced_routing{counts, of.where, of.topo};
    auto sent = support::routed_tokens{};
    auto received = support::routed_tokens{};
    auto hashes = std::vector<std::uint64_t>{};
    for (auto const rank : fssdp::first_n<rank_id>(of.layout.ranks())) {
      auto const own = balanced_routing{counts, of.where, of.topo};  // each rank has its own
      auto const plan = token_plan{counts, own, rank};
      for (auto const& s : plan.sends()) sent[{s.expert, rank, s.peer}] += s.rows;
      for (auto const& s : plan.receives()) received[{s.expert, s.peer, rank}] += s.rows;
      hashes.push_back(plan.hash_value());
    }
    auto const expected = support::routed(counts, routing);
    REQUIRE(sent == expected);
    REQUIRE(received == expected);
    REQUIRE(hashes == std::vector(hashes.size(), hashes.front()));
  });
}

TEST_CASE("rows with balanced routing arrive at their experts and come back") {
  auto seed = std::uint64_t{0};
  support::for_random_instances(support::law_instances / 20 + 1, [&](random_instance const& of) {
    auto const counts = support::random_counts(of, ++seed);
    auto const wrong = support::on_all_ranks(of.layout.ranks(), [&](auto& comm) {
      auto const plan =
          token_plan{counts, balanced_routing{counts, of.where, of.topo}, comm.rank()};
      auto const sent = named_rows(counts, comm.rank());
      auto received = std::vector<int>(plan.received_rows() * 2, -1);
      auto returned = std::vector<int>(sent.size(), -1);
      fssdp::dispatch(comm, plan, rows_view<int const>{sent.data(), plan.sent_rows(), 2},
                      rows_view<int>{received.data(), plan.received_rows(), 2});
      fssdp::combine(comm, plan, rows_view<int const>{received.data(), plan.received_rows(), 2},
                     rows_view<int>{returned.data(), plan.sent_rows(), 2});
      fssdp::synchronize(comm);
      return misplaced(plan, received) + (returned == sent ? 0 : 1);
    });
    REQUIRE(wrong == std::vector(wrong.size(), 0));
  });
}
