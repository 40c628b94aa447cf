// SPDX-License-Identifier: Apache-2.0
/// The documented cost, counted: messages, bytes, copies, exchanges.
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/plan/traffic.hpp"
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

/// The bytes of one expert.
[[nodiscard]] std::uint64_t expert_bytes(random_instance const& of, std::size_t element) {
  return std::accumulate(of.elements.begin(), of.elements.end(), std::size_t{0}) * element;
}

constexpr auto some = support::law_instances / 10 + 1;

}  // namespace

TEST_CASE("a gather moves exactly the plan's bytes and copies each once") {
  support::for_random_instances(some, [](random_instance const& of) {
    auto const costs = cost_of(of, [&](auto& comm) {
      auto mine = rank_buffers<float>{of, comm.rank()};
      fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.replicas);
    });
    auto const ports = fssdp::traffic(of.plan);
    auto const bytes = expert_bytes(of, sizeof(float));
    auto total = std::uint64_t{0};
    for (std::size_t rank = 0; rank < costs.size(); ++rank) {
      auto const out = static_cast<std::uint64_t>(ports.out_of_rank[rank]);
      auto const in = static_cast<std::uint64_t>(ports.into_rank[rank]);
      REQUIRE(costs[rank].counts ==
              exchange_counts{.exchanges = static_cast<std::uint64_t>(of.plan.rounds()),
                              .messages_sent = out * of.elements.size(),
                              .bytes_sent = out * bytes,
                              .messages_received = in * of.elements.size(),
                              .bytes_received = in * bytes});
      REQUIRE(costs[rank].copied == in * bytes);
      total += costs[rank].counts.bytes_sent;
    }
    REQUIRE(total == of.plan.transfers().size() * bytes);
  });
}

TEST_CASE("a gather in one piece moves the same bytes") {
  support::for_random_instances(some, [](random_instance const& of) {
    auto const costs = cost_of(of, [&](auto& comm) {
      auto mine = rank_buffers<float>{of, comm.rank()};
      fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.in_one_piece);
    });
    auto total = std::uint64_t{0};
    for (auto const& of_rank : costs) total += of_rank.counts.bytes_sent;
    REQUIRE(total == of.plan.transfers().size() * expert_bytes(of, sizeof(float)));
  });
}

TEST_CASE("a reduction of lent memory copies nothing, the plan backwards, message for message") {
  support::for_random_instances(some, [](random_instance const& of) {
    auto const costs = cost_of(of, [&](auto& comm) {
      auto mine = rank_buffers<float>{of, comm.rank()};
      fssdp::sparse_reduce_scatter(comm, of.plan, mine.partials, mine.gradients);
    });
    auto const ports = fssdp::traffic(of.plan);
    auto const bytes = expert_bytes(of, sizeof(float));
    for (std::size_t rank = 0; rank < costs.size(); ++rank) {
      auto const out = static_cast<std::uint64_t>(ports.into_rank[rank]);  // backwards
      auto const in = static_cast<std::uint64_t>(ports.out_of_rank[rank]);
      REQUIRE(costs[rank].counts ==
              exchange_counts{.exchanges = static_cast<std::uint64_t>(of.plan.rounds()),
                              .messages_sent = out * of.elements.size(),
                              .bytes_sent = out * bytes,
                              .messages_received = in * of.elements.size(),
                              .bytes_received = in * bytes,
                              .bytes_borrowed = in * bytes});
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
        sends_on = sends_on || (other.expert == t.expert && other.source == t.destination);
      expected += expert_bytes(of, sends_on ? sizeof(float) : sizeof(fssdp::bf16));
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
