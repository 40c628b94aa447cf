// SPDX-License-Identifier: Apache-2.0
/// Consecutive pieces travel together, and both ends see the same messages.
#include "fssdp/collective/round_messages.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/cyclic_layout.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "support/communicator_archetype.hpp"
#include "support/dice.hpp"
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

  /// @param elements of each tensor: pieces of slices that are shorter than others stay apart
  counted_messages(fssdp::transfer_plan const& plan, std::vector<std::size_t> const& elements)
      : gather(static_cast<std::size_t>(plan.ranks())), reduction(gather) {
    auto const fills_slots = [&](fssdp::chunk_id chunk) {
      return std::ranges::all_of(elements, [&](std::size_t whole) {
        return fssdp::slice_extent{whole, chunk.slice, plan.slices()}.elements ==
               fssdp::slice_elements(whole, plan.slices());
      });
    };
    using place = std::tuple<int, piece_id, rank_id, rank_id>;
    auto forwarded = std::set<std::pair<rank_id, piece_id>>{};
    for (auto const& t : plan.transfers()) forwarded.emplace(t.source, t.what());
    auto sums = std::map<place, bool>{};
    for (auto const& t : plan.transfers())
      sums[{t.round, t.what(), t.source, t.destination}] =
          forwarded.contains({t.destination, t.what()});
    for (auto const& [at, is_sum] : sums) {
      auto const& [round, what, source, destination] = at;
      auto const before =
          fills_slots(what.chunk)
              ? sums.find({round, {what.chunk, what.index - 1}, source, destination})
              : sums.end();
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

TEST_CASE("a piece with another type or encoding begins a new message") {
  auto const all = std::vector{piece_to(1, 0, 0), piece_to(1, 0, 1), piece_to(1, 0, 2)};
  auto const alike = [](transfer const& a, transfer const& b) {
    return (a.piece < 2) == (b.piece < 2);
  };
  REQUIRE(messages(all, alike) == std::vector<pieces>{{0, 1}, {2}});
}

TEST_CASE("by rounds, both collectives send as few messages as pieces allow") {
  auto joined = std::size_t{0};
  support::for_random_instances(support::some_instances, [&](random_instance of) {
    of.plan = fssdp::schedule(of.plan, 40'960'000, {.piece_bytes = 5'120'000});
    auto const counts = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
      auto mine = support::rank_buffers<fssdp::bf16>{of, comm.rank()};
      auto bare = support::exchange_only{comm};
      auto gathered = fssdp::counting{bare};
      fssdp::sparse_all_gather(gathered, of.plan, mine.shard, mine.replicas);
      auto reduced = fssdp::counting{bare};
      fssdp::sparse_reduce_scatter(reduced, of.plan, mine.partials, mine.gradients);
      return std::pair{gathered.counts().messages_sent, reduced.counts().messages_sent};
    });
    auto const expected = counted_messages{of.plan, of.elements};
    for (std::size_t rank = 0; rank < counts.size(); ++rank) {
      REQUIRE(counts[rank].first == expected.gather[rank] * of.elements.size());
      REQUIRE(counts[rank].second == expected.reduction[rank] * of.elements.size());
      joined += of.plan.sends(rank_id{rank}).size() - expected.gather[rank];
    }
  });
  REQUIRE(joined > 0);
}

TEST_CASE("slices of different length, in pieces: every element arrives, plain and coded") {
  auto draw = support::dice{7};
  for (int turn = 0; turn < 60; ++turn) {
    auto const ranks = draw.between(2, 4);
    auto const nodes = draw.between(1, ranks);
    auto const slices = draw.between(2, 3);
    auto const elements = std::vector{static_cast<std::size_t>(draw.between(1000, 2000)),
                                      static_cast<std::size_t>(draw.between(1, 1100))};
    auto const pieces = draw.between(2, 4);
    CAPTURE(turn, ranks, nodes, slices, elements, pieces);
    auto const layout = fssdp::cyclic_layout{{.experts = 3, .ranks = ranks, .slices = slices}};
    auto const topo = fssdp::topology{{.nodes = nodes, .ranks = ranks}};
    auto const whole = fssdp::make_plan(layout, fssdp::everywhere{}(layout), topo);
    auto transfers = std::vector<transfer>{};  // all pieces of a chunk in one round
    for (auto t : whole.transfers())
      for (t.piece = 0; t.piece < pieces; ++t.piece) transfers.push_back(t);
    auto const plan = whole.realised_by(transfers, pieces);
    auto const wrong = support::on_all_ranks(ranks, [&](thread_communicator& comm) {
      auto const me = comm.rank();
      auto shard = fssdp::make_shard<float>(layout, me, elements);
      auto partials = fssdp::make_partials<float>(plan, me, elements);
      for (auto const& tensor : shard.tensors())
        std::fill_n(tensor.data, tensor.slots * tensor.stride, 1.0F);
      for (auto const& tensor : partials.tensors())
        std::fill_n(tensor.data, tensor.slots * tensor.stride, 1.0F);
      auto errors = 0;
      auto const check = [&](auto& streamed, auto const& links) {
        auto replicas = fssdp::make_partials<float>(plan, me, elements);
        fssdp::sparse_all_gather(streamed, plan, shard, replicas, links);
        for (auto const& tensor : replicas.tensors())
          for (std::size_t i = 0; i < tensor.slots * tensor.stride; ++i)
            errors += tensor.data[i] == 1.0F ? 0 : 1;
        auto gradients = fssdp::make_shard<float>(layout, me, elements);
        fssdp::sparse_reduce_scatter(streamed, plan, partials, gradients, links);
        auto slot = std::size_t{0};
        for (auto const chunk : layout.owned(me)) {
          for (std::size_t k = 0; k < elements.size(); ++k)
            for (auto const value : gradients.tensors()[k][slot].first(
                     fssdp::slice_extent{elements[k], chunk.slice, slices}.elements))
              errors += value == static_cast<float>(ranks) ? 0 : 1;
          ++slot;
        }
      };
      auto bare = support::exchange_only{comm};
      auto lends = support::lending_only{comm};
      for (auto const on : {fssdp::link_class::all, fssdp::link_class::between_nodes}) {
        auto const links = fssdp::coded_links{fssdp::bf16_codec{}, on};
        check(comm, links);
        check(bare, links);
        check(lends, links);
      }
      check(bare, fssdp::uncoded{});
      check(lends, fssdp::uncoded{});
      return errors;
    });
    REQUIRE(wrong == std::vector(static_cast<std::size_t>(ranks), 0));
  }
}
