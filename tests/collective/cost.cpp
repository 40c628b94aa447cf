// SPDX-License-Identifier: Apache-2.0
/// The documented cost, counted: messages, bytes, copies, exchanges.
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/communicator_archetype.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/rank_buffers.hpp"

using fssdp::counting;
using fssdp::exchange_counts;
using fssdp::thread_communicator;
using support::random_instance;
using support::rank_buffers;

namespace {

struct cost {
  exchange_counts counts;
  std::uint64_t copied = 0;
};

/// What a collective costs each rank: [rank].
template <class Collective>
[[nodiscard]] std::vector<cost> cost_of(random_instance const& of, Collective collective) {
  return support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
    auto counted = counting{comm};
    collective(counted);
    return cost{counted.counts(), comm.copied_bytes()};
  });
}

/// The bytes of one piece, in all tensors.
[[nodiscard]] std::uint64_t piece_bytes(random_instance const& of, fssdp::piece_id piece,
                                        std::size_t element) {
  auto bytes = std::uint64_t{0};
  for (auto const size : of.elements) {
    auto const slice = fssdp::slice_extent{size, piece.chunk.slice, of.layout.slices()};
    bytes += fssdp::piece_extent{slice.elements, piece.index, of.plan.pieces()}.elements * element;
  }
  return bytes;
}

/// What a rank sends and gets in one gather: [rank].
struct rank_traffic {
  std::uint64_t transfers_out = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t transfers_in = 0;
  std::uint64_t bytes_in = 0;
};
[[nodiscard]] std::vector<rank_traffic> expected_traffic(random_instance const& of,
                                                         std::size_t element) {
  auto all = std::vector<rank_traffic>(static_cast<std::size_t>(of.layout.ranks()));
  for (auto const& t : of.plan.transfers()) {
    auto const bytes = piece_bytes(of, t.what(), element);
    ++all[t.source.index()].transfers_out;
    all[t.source.index()].bytes_out += bytes;
    ++all[t.destination.index()].transfers_in;
    all[t.destination.index()].bytes_in += bytes;
  }
  return all;
}

constexpr auto some = support::law_instances / 50 + 1;

}  // namespace

TEST_CASE("a gather moves exactly the plan's bytes and copies each once") {
  support::for_random_instances(some, [](random_instance const& of) {
    auto const costs = cost_of(of, [&](auto& comm) {
      auto mine = rank_buffers<float>{of, comm.rank()};
      fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.replicas);
    });
    auto const expected = expected_traffic(of, sizeof(float));
    for (std::size_t rank = 0; rank < costs.size(); ++rank) {
      auto const& mine = expected[rank];
      REQUIRE(costs[rank].counts ==
              exchange_counts{.exchanges = of.plan.rounds() > 0 ? 1U : 0U,
                              .messages_sent = mine.transfers_out * of.elements.size(),
                              .bytes_sent = mine.bytes_out,
                              .messages_received = mine.transfers_in * of.elements.size(),
                              .bytes_received = mine.bytes_in});
      REQUIRE(costs[rank].copied == mine.bytes_in);
    }
  });
}

TEST_CASE("a gather that converts sends the smaller type") {
  support::for_random_instances(some, [](random_instance const& of) {
    auto const costs = cost_of(of, [&](auto& comm) {
      auto mine = rank_buffers<fssdp::fp16, float>{of, comm.rank()};
      fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.replicas);
    });
    auto const expected = expected_traffic(of, sizeof(fssdp::fp16));
    for (std::size_t rank = 0; rank < costs.size(); ++rank)
      REQUIRE(costs[rank].counts.bytes_sent == expected[rank].bytes_out);
  });
}

TEST_CASE("a gather in one piece moves the same bytes") {
  support::for_random_instances(some, [](random_instance const& of) {
    auto const costs = cost_of(of, [&](auto& comm) {
      auto mine = rank_buffers<float>{of, comm.rank()};
      fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.in_one_piece);
    });
    auto const expected = expected_traffic(of, sizeof(float));
    for (std::size_t rank = 0; rank < costs.size(); ++rank)
      REQUIRE(costs[rank].counts.bytes_sent == expected[rank].bytes_out);
  });
}

TEST_CASE("a reduction of lent memory copies nothing, the plan backwards, message for message") {
  support::for_random_instances(some, [](random_instance const& of) {
    auto const costs = cost_of(of, [&](auto& comm) {
      auto mine = rank_buffers<float>{of, comm.rank()};
      fssdp::sparse_reduce_scatter(comm, of.plan, mine.partials, mine.gradients);
    });
    auto const gather = expected_traffic(of, sizeof(float));
    for (std::size_t rank = 0; rank < costs.size(); ++rank) {
      auto const& mine = gather[rank];
      REQUIRE(costs[rank].counts ==
              exchange_counts{.exchanges = of.plan.rounds() > 0 ? 1U : 0U,
                              .messages_sent = mine.transfers_in * of.elements.size(),
                              .bytes_sent = mine.bytes_in,
                              .messages_received = mine.transfers_out * of.elements.size(),
                              .bytes_received = mine.bytes_out,
                              .bytes_borrowed = mine.bytes_out});
      REQUIRE(costs[rank].copied == 0);
    }
  });
}

TEST_CASE("bf16 partials travel as 2 bytes, sums of several as 4") {
  support::for_random_instances(some, [](random_instance const& of) {
    auto const costs = cost_of(of, [&](auto& comm) {
      auto bare = support::exchange_only{comm};
      auto mine = rank_buffers<fssdp::bf16>{of, comm.rank()};
      fssdp::sparse_reduce_scatter(bare, of.plan, mine.partials, mine.gradients);
    });
    auto expected = std::uint64_t{0};
    for (auto const& t : of.plan.transfers()) {
      auto sends_on = false;  // in a gather; then it sends back a sum
      for (auto const& other : of.plan.transfers())
        sends_on = sends_on || (other.what() == t.what() && other.source == t.destination);
      expected += piece_bytes(of, t.what(), sends_on ? sizeof(float) : sizeof(fssdp::bf16));
    }
    auto sent = std::uint64_t{0};
    auto copied = std::uint64_t{0};
    for (auto const& of_rank : costs) {
      sent += of_rank.counts.bytes_sent;
      copied += of_rank.copied;
    }
    REQUIRE(sent == expected);
    REQUIRE(copied == expected);
  });
}
