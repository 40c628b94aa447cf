// SPDX-License-Identifier: Apache-2.0
/// Consecutive pieces travel together, and both ends see the same messages.
#include "fssdp/collective/round_messages.hpp"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/plan/schedule.hpp"
#include "support/communicator_archetype.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/rank_buffers.hpp"

using fssdp::piece_id;
using fssdp::rank_id;
using fssdp::thread_communicator;
using fssdp::transfer;
using support::random_instance;

namespace {

using pieces = std::vector<int>;

/// The pieces of each message.
template <class Alike>
[[nodiscard]] std::vector<pieces> messages(std::vector<transfer> const& transfers, Alike alike) {
  auto all = std::vector<pieces>{};
  fssdp::detail::round_messages{std::span{transfers}, alike}.for_each([&](auto const& message) {
    auto& list = all.emplace_back();
    for (auto const& t : message) list.push_back(t.piece);
    REQUIRE(list.size() == message.size());
  });
  return all;
}

[[nodiscard]] transfer piece_to(int rank, int expert, int piece) {
  return {0, fssdp::expert_id{expert}, rank_id{0}, rank_id{rank}, piece};
}

[[nodiscard]] bool any(transfer const&, transfer const&) { return true; }

/// How many messages there are from each rank to each other in a gather, and how many in a
/// reduction, found without a search: a piece that follows its neighbour adds none.
struct counted_messages {
  std::vector<std::size_t> gather;     // [ranks], sent
  std::vector<std::size_t> reduction;  // [ranks], sent

  explicit counted_messages(fssdp::transfer_plan const& plan)
      : gather(static_cast<std::size_t>(plan.ranks())), reduction(gather) {
    using place = std::tuple<int, piece_id, rank_id, rank_id>;
    auto forwarded = std::set<std::pair<rank_id, piece_id>>{};
    for (auto const& t : plan.transfers()) forwarded.emplace(t.source, t.what());
    auto sums = std::map<place, bool>{};
    for (auto const& t : plan.transfers())
      sums[{t.round, t.what(), t.source, t.destination}] =
          forwarded.contains({t.destination, t.what()});
    for (auto const& [at, is_sum] : sums) {
      auto const& [round, what, source, destination] = at;
      auto const before = sums.find({round, {what.chunk, what.index - 1}, source, destination});
      if (before == sums.end()) ++gather[source.index()];
      if (before == sums.end() || before->second != is_sum) ++reduction[destination.index()];
    }
  }
};

}  // namespace

TEST_CASE("consecutive pieces of a chunk to one rank are one message") {
  auto const to_one = std::vector{piece_to(1, 0, 0), piece_to(1, 0, 1), piece_to(1, 0, 3)};
  REQUIRE(messages(to_one, any) == std::vector<pieces>{{0, 1}, {3}});
  auto const to_two = std::vector{piece_to(1, 0, 0), piece_to(2, 0, 0), piece_to(1, 0, 1),
                                  piece_to(2, 0, 1), piece_to(2, 0, 2), piece_to(1, 1, 0)};
  REQUIRE(messages(to_two, any) == std::vector<pieces>{{0, 1}, {0, 1, 2}, {0}});
}

TEST_CASE("pieces in another form end a message") {
  auto const all = std::vector{piece_to(1, 0, 0), piece_to(1, 0, 1), piece_to(1, 0, 2)};
  auto const alike = [](transfer const& a, transfer const& b) {
    return (a.piece < 2) == (b.piece < 2);
  };
  REQUIRE(messages(all, alike) == std::vector<pieces>{{0, 1}, {2}});
}

TEST_CASE("by rounds, both verbs send as few messages as pieces allow") {
  auto joined = std::size_t{0};
  support::for_random_instances(support::some_instances, [&](random_instance of) {
    of.plan = fssdp::schedule(of.plan, 4096, {.piece_bytes = 512});
    auto const counts = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
      auto mine = support::rank_buffers<fssdp::bf16>{of, comm.rank()};
      auto bare = support::exchange_only{comm};
      auto gathered = fssdp::counting{bare};
      fssdp::sparse_all_gather(gathered, of.plan, mine.shard, mine.replicas);
      auto reduced = fssdp::counting{bare};
      fssdp::sparse_reduce_scatter(reduced, of.plan, mine.partials, mine.gradients);
      return std::pair{gathered.counts().messages_sent, reduced.counts().messages_sent};
    });
    auto const expected = counted_messages{of.plan};
    for (std::size_t rank = 0; rank < counts.size(); ++rank) {
      REQUIRE(counts[rank].first == expected.gather[rank] * of.elements.size());
      REQUIRE(counts[rank].second == expected.reduction[rank] * of.elements.size());
      joined += of.plan.sends(rank_id{rank}).size() - expected.gather[rank];
    }
  });
  REQUIRE(joined > 0);
}
