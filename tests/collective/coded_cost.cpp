// SPDX-License-Identifier: Apache-2.0
/// What coded collectives cost, counted: the messages of the plan, with the bytes of payloads where
/// something is coded.
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/fp8_e5m2_codec.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/coded_instance.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/rank_buffers.hpp"

using fssdp::coded_links;
using fssdp::exchange_counts;
using fssdp::thread_communicator;
using support::coded_instance;

namespace {

struct cost {
  exchange_counts counts;
  std::uint64_t copied = 0;
};

/// What a collective costs each rank: [rank].
template <class Collective>
[[nodiscard]] std::vector<cost> cost_of(coded_instance const& of, Collective collective) {
  return support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
    auto counted = fssdp::counting{comm};
    auto mine = support::rank_buffers<fssdp::bf16, float>{of, comm.rank()};
    collective(counted, mine);
    return cost{counted.counts(), comm.copied_bytes()};
  });
}

/// What a rank sends in one direction and gets from the other.
struct rank_traffic {
  std::uint64_t transfers_out = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t transfers_in = 0;
  std::uint64_t bytes_in = 0;
};
/// @param bytes(transfer, elements) the size of one message
template <class Bytes>
[[nodiscard]] std::vector<rank_traffic> expected_traffic(coded_instance const& of, Bytes bytes) {
  auto all = std::vector<rank_traffic>(static_cast<std::size_t>(of.layout.ranks()));
  for (auto const& t : of.plan.transfers())
    for (auto const size : of.elements) {
      auto const slice = fssdp::slice_extent{size, t.chunk.slice, of.layout.slices()};
      auto const piece = fssdp::piece_extent{slice.elements, t.piece, of.plan.pieces()};
      auto const message = std::uint64_t{bytes(t, piece.elements)};
      ++all[t.source.index()].transfers_out;
      all[t.source.index()].bytes_out += message;
      ++all[t.destination.index()].transfers_in;
      all[t.destination.index()].bytes_in += message;
    }
  return all;
}

constexpr auto some = support::law_instances / 50 + 10;

}  // namespace

TEST_CASE(
    "a coded gather sends payloads of coded chunks, all else as it is, and copies each once") {
  support::for_coded_instances(some, [](coded_instance const& of) {
    auto const costs = cost_of(of, [&](auto& comm, auto& mine) {
      fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.in_one_piece,
                               coded_links{fssdp::int8_codec{}, of.on});
    });
    auto const expected = expected_traffic(of, [&](auto const& t, std::size_t elements) {
      return support::any_goes_over(of, of.on, t.chunk) ? fssdp::int8_codec::encoded_bytes(elements)
                                                        : elements * sizeof(fssdp::bf16);
    });
    for (std::size_t rank = 0; rank < costs.size(); ++rank) {
      auto const& mine = expected[rank];
      REQUIRE(costs[rank].counts == exchange_counts{.exchanges = of.plan.rounds() > 0 ? 1U : 0U,
                                                    .messages_sent = mine.transfers_out,
                                                    .bytes_sent = mine.bytes_out,
                                                    .messages_received = mine.transfers_in,
                                                    .bytes_received = mine.bytes_in});
      REQUIRE(costs[rank].copied == mine.bytes_in);
    }
  });
}

TEST_CASE("a coded reduction sends payloads over coded links, all else as it is, and copies none") {
  support::for_coded_instances(some, [](coded_instance const& of) {
    auto const costs = cost_of(of, [&](auto& comm, auto& mine) {
      fssdp::sparse_reduce_scatter(comm, of.plan, mine.partials, mine.gradients,
                                   coded_links{fssdp::fp8_e5m2_codec{}, of.on});
    });
    auto const expected = expected_traffic(of, [&](auto const& t, std::size_t elements) {
      if (support::goes_over(of, of.on, t)) return fssdp::fp8_e5m2_codec::encoded_bytes(elements);
      auto sends_on = false;  // in a gather; then it sends back a sum
      for (auto const& other : of.plan.transfers())
        sends_on = sends_on || (other.what() == t.what() && other.source == t.destination);
      return elements * (sends_on ? sizeof(float) : sizeof(fssdp::bf16));
    });
    for (std::size_t rank = 0; rank < costs.size(); ++rank) {
      auto const& mine = expected[rank];
      REQUIRE(costs[rank].counts == exchange_counts{.exchanges = of.plan.rounds() > 0 ? 1U : 0U,
                                                    .messages_sent = mine.transfers_in,
                                                    .bytes_sent = mine.bytes_in,
                                                    .messages_received = mine.transfers_out,
                                                    .bytes_received = mine.bytes_out,
                                                    .bytes_borrowed = mine.bytes_out});
      REQUIRE(costs[rank].copied == 0);
    }
  });
}
