// SPDX-License-Identifier: Apache-2.0
/// The counting adaptor counts, and changes nothing.
#include "fssdp/comm/counting.hpp"

#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_gather.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/communicator_archetype.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::counting;
using fssdp::exchange_counts;
using fssdp::rank_id;
using fssdp::thread_communicator;

TEST_CASE("exchanges, messages and bytes are counted on both ends") {
  auto const counts = support::on_all_ranks(3, [](thread_communicator& comm) {
    auto counted = counting{comm};
    auto const mine = std::vector<int>(5, comm.rank().value());
    auto all = std::vector<int>(15);
    fssdp::all_gather(counted, mine, all);
    counted.exchange([](auto&) {});
    auto const arrived = all == std::vector{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2};
    return arrived ? counted.counts() : exchange_counts{};
  });
  auto const expected = exchange_counts{.exchanges = 2,
                                        .messages_sent = 2,
                                        .bytes_sent = 40,
                                        .messages_received = 2,
                                        .bytes_received = 40};
  for (auto const& of_rank : counts) REQUIRE(of_rank == expected);
}

TEST_CASE("borrowed bytes are counted apart") {
  auto const counts = support::on_all_ranks(2, [](thread_communicator& comm) {
    auto counted = counting{comm};
    auto const peer = rank_id{1 - comm.rank().value()};
    auto const value = 1.0;
    counted.lend(
        [&](auto& batch) {
          batch.send(std::as_bytes(std::span{&value, 1}), peer);
          batch.borrow(8, peer);
        },
        [](auto const&) {});
    return counted.counts();
  });
  auto const expected = exchange_counts{.exchanges = 1,
                                        .messages_sent = 1,
                                        .bytes_sent = 8,
                                        .messages_received = 1,
                                        .bytes_received = 8,
                                        .bytes_borrowed = 8};
  for (auto const& of_rank : counts) REQUIRE(of_rank == expected);
}

TEST_CASE("reset begins again") {
  auto comm = support::communicator_archetype{rank_id{0}};
  auto counted = counting{comm};
  counted.exchange([](auto&) {});
  REQUIRE(counted.counts().exchanges == 1);
  counted.reset();
  REQUIRE(counted.counts() == exchange_counts{});
}

TEST_CASE("labels pass through, so that ranks that disagree get an error") {
  auto world = fssdp::thread_world{2};
  auto const result = support::fallout_of(world, [](thread_communicator& comm) {
    auto counted = counting{comm};
    auto const peer = rank_id{1 - comm.rank().value()};
    auto const mine = comm.rank().value();
    auto theirs = 0;
    counted.exchange([&](auto& batch) {
      set_label(batch, {.plan = 1, .round = comm.rank().value()});
      batch.send(std::as_bytes(std::span{&mine, 1}), peer);
      batch.recv(std::as_writable_bytes(std::span{&theirs, 1}), peer);
    });
  });
  REQUIRE(support::is<fssdp::ranks_disagree>(result.of_run));
}

TEST_CASE("a counted communicator can be bound to a stream") {
  auto const counts = support::on_all_ranks(2, [](thread_communicator& comm) {
    auto counted = counting{comm};
    auto stream = fssdp::host_stream{};
    auto queued = fssdp::on_stream(counted, stream);
    auto all = std::vector<int>(2);
    fssdp::all_gather(queued, std::vector{comm.rank().value()}, all);
    return counted.counts().bytes_received;
  });
  REQUIRE(counts == std::vector<std::uint64_t>(2, 4));
}
