// SPDX-License-Identifier: Apache-2.0
/// No order of events makes ranks that execute a small plan wait for each other, with mailboxes of
/// any size, piece by piece and round by round, forwards and backwards: all orders are tried, on an
/// abstract model. Broken orders are found.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "support/interleavings.hpp"
#include "support/laws.hpp"
#include "support/scheduled_plan.hpp"

using support::abstract_deed;
using support::abstract_message;
using support::abstract_program;
using support::interleavings;
using enum support::abstract_deed::kind;

namespace {

constexpr auto unbounded = std::size_t(-1);
auto const all_sizes = std::vector<std::size_t>{0, 1, unbounded};

/// Which way a plan is read, and how much of it at once.
enum class direction { gather, reduction };
enum class step { everything, rounds };

/// The transfers of a plan, in canonical order.
[[nodiscard]] std::vector<fssdp::transfer> transfers_of(fssdp::transfer_plan const& plan) {
  auto all = std::vector<fssdp::transfer>{};
  for (auto const rank : fssdp::first_n<fssdp::rank_id>(plan.ranks()))
    for (auto const& t : plan.sends(rank)) all.push_back(t);
  std::ranges::sort(all);
  return all;
}

/// What the executors of gathers and reductions do.
[[nodiscard]] abstract_program program_of(fssdp::transfer_plan const& plan, direction way,
                                          step size) {
  auto const all = transfers_of(plan);
  auto const backwards = way == direction::reduction;
  auto const batches = size == step::rounds ? static_cast<std::size_t>(plan.rounds()) : 1;
  auto program = abstract_program{};
  program.ranks.assign(static_cast<std::size_t>(plan.ranks()),
                       std::vector<abstract_program::batch>(batches));
  for (std::size_t m = 0; m < all.size(); ++m) {
    auto const& t = all[m];
    auto message = backwards ? abstract_message{t.destination.index(), t.source.index()}
                             : abstract_message{t.source.index(), t.destination.index()};
    for (std::size_t other = 0; other < all.size(); ++other) {
      auto const feeds =
          backwards ? all[other].source == t.destination : all[other].destination == t.source;
      if (feeds && all[other].what() == t.what()) message.feeders.push_back(other);
    }
    auto const round = static_cast<std::size_t>(t.round);
    auto const batch = size == step::everything ? 0 : backwards ? batches - 1 - round : round;
    program.ranks[message.from][batch].push_back({send, m});
    program.ranks[message.to][batch].push_back({receive, m});
    program.messages.push_back(message);
  }
  return program;
}

/// Two ranks, a message each way; a rank does these one after the other.
[[nodiscard]] abstract_program two_ranks(abstract_deed::kind first, abstract_deed::kind second) {
  auto const mine = [&](abstract_deed::kind what, std::size_t rank) {
    return abstract_program::batch{{what, what == send ? rank : 1 - rank}};
  };
  return {{{0, 1}, {1, 0}}, {{mine(first, 0), mine(second, 0)}, {mine(first, 1), mine(second, 1)}}};
}

[[nodiscard]] std::size_t deadlocks(abstract_program const& of, std::size_t slots) {
  return interleavings{of, slots}.deadlocks();
}

}  // namespace

TEST_CASE("the state search finds deadlocks") {
  auto const both_receive_first = two_ranks(receive, send);
  for (auto const slots : all_sizes) REQUIRE(deadlocks(both_receive_first, slots) == 1);
  auto const both_send_first = two_ranks(send, receive);
  REQUIRE(deadlocks(both_send_first, 0) == 1);
  REQUIRE(deadlocks(both_send_first, 1) == 0);
  REQUIRE(deadlocks(both_send_first, unbounded) == 0);

  // Two messages each way, all sends first: one slot is not enough.
  auto const two_each = abstract_program{{{0, 1}, {0, 1}, {1, 0}, {1, 0}},
                                         {{{{send, 0}, {send, 1}}, {{receive, 2}, {receive, 3}}},
                                          {{{send, 2}, {send, 3}}, {{receive, 0}, {receive, 1}}}}};
  REQUIRE(deadlocks(two_each, 1) > 0);
  REQUIRE(deadlocks(two_each, 2) == 0);

  // At once instead of one after the other: none.
  auto const at_once = abstract_program{{{0, 1}, {1, 0}},
                                        {{{{send, 0}, {receive, 1}}}, {{{send, 1}, {receive, 0}}}}};
  for (auto const slots : all_sizes) REQUIRE(deadlocks(at_once, slots) == 0);
}

TEST_CASE("the state search finds messages that depend on each other, and counts the states") {
  auto circle = abstract_program{{{0, 1, {1}}, {1, 0, {0}}},
                                 {{{{send, 0}, {receive, 1}}}, {{{send, 1}, {receive, 0}}}}};
  for (auto const slots : all_sizes) REQUIRE(deadlocks(circle, slots) == 1);
  circle.messages[0].feeders.clear();
  for (auto const slots : all_sizes) REQUIRE(deadlocks(circle, slots) == 0);
  REQUIRE(interleavings{circle, 0}.states() == 3);
  REQUIRE(interleavings{circle, 1}.states() == 5);
  circle.messages[1].feeders.clear();
  REQUIRE(interleavings{circle, 0}.states() == 4);
  REQUIRE(interleavings{circle, 1}.states() == 9);
}

TEST_CASE("no order of events deadlocks a small plan, whole or by rounds, forwards or backwards") {
  auto searched = 0;
  auto passed_on = 0;
  for (std::uint64_t seed = 1; seed <= support::law_instances; ++seed) {
    CAPTURE(seed);
    auto const limits = support::size_limits{.ranks = 4, .nodes = 2, .experts = 4, .slices = 2};
    auto const of = support::relayed_instance(seed, limits);
    auto const transfers = transfers_of(of.plan).size();
    if (transfers == 0 || transfers > 6) continue;
    ++searched;
    for (auto const way : {direction::gather, direction::reduction})
      for (auto const size : {step::everything, step::rounds}) {
        auto const program = program_of(of.plan, way, size);
        for (auto const& message : program.messages)
          passed_on += static_cast<int>(message.feeders.size());
        for (auto const slots : all_sizes) {
          auto const search = interleavings{program, slots};
          REQUIRE(search.deadlocks() == 0);
          REQUIRE(search.ends() == 1);
        }
      }
  }
  REQUIRE(searched > support::law_instances / 10);
  REQUIRE(passed_on > support::law_instances / 20);
}
