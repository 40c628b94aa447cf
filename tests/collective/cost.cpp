// SPDX-License-Identifier: Apache-2.0
/// The documented cost, counted: messages, bytes, copies, exchanges.
#include <cstddef>
#include <cstdint>

#include "catch.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "support/collective_cost.hpp"
#include "support/communicator_archetype.hpp"
#include "support/laws.hpp"
#include "support/rank_buffers.hpp"

using support::cost_of;
using support::expected_traffic;
using support::random_instance;
using support::rank_buffers;

TEST_CASE("a gather moves exactly the plan's bytes and copies each once") {
  support::for_random_instances(support::some_instances, [](random_instance const& of) {
    auto const costs = cost_of(of, [&](auto& comm) {
      auto mine = rank_buffers<float>{of, comm.rank()};
      fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.replicas);
    });
    auto const expected = expected_traffic(of, sizeof(float));
    for (std::size_t rank = 0; rank < costs.size(); ++rank) {
      REQUIRE(costs[rank].counts == support::gather_counts(of, expected[rank]));
      REQUIRE(costs[rank].copied == expected[rank].bytes_in);
    }
  });
}

TEST_CASE("a gather that converts sends the smaller type") {
  support::for_random_instances(support::some_instances, [](random_instance const& of) {
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
  support::for_random_instances(support::some_instances, [](random_instance const& of) {
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
  support::for_random_instances(support::some_instances, [](random_instance const& of) {
    auto const costs = cost_of(of, [&](auto& comm) {
      auto mine = rank_buffers<float>{of, comm.rank()};
      fssdp::sparse_reduce_scatter(comm, of.plan, mine.partials, mine.gradients);
    });
    auto const expected = expected_traffic(of, sizeof(float));
    for (std::size_t rank = 0; rank < costs.size(); ++rank) {
      REQUIRE(costs[rank].counts == support::reduction_counts(of, expected[rank]));
      REQUIRE(costs[rank].copied == 0);
    }
  });
}

TEST_CASE("bf16 partials travel as 2 bytes, sums of several as 4") {
  support::for_random_instances(support::some_instances, [](random_instance const& of) {
    auto const costs = cost_of(of, [&](auto& comm) {
      auto bare = support::exchange_only{comm};
      auto mine = rank_buffers<fssdp::bf16>{of, comm.rank()};
      fssdp::sparse_reduce_scatter(bare, of.plan, mine.partials, mine.gradients);
    });
    auto const traffic = expected_traffic(of, [&](auto const& t, std::size_t elements) {
      return elements * (support::passes_on(of.plan, t) ? sizeof(float) : sizeof(fssdp::bf16));
    });
    auto expected = std::uint64_t{0};
    for (auto const& of_rank : traffic) expected += of_rank.bytes_in;
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
