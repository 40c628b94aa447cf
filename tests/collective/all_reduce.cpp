// SPDX-License-Identifier: Apache-2.0
/// Small sums: in rank order, the same bits on every rank.
#include "fssdp/collective/all_reduce.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/sum_loads.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::thread_communicator;

TEST_CASE("sums are formed in rank order and have the same bits on every rank") {
  auto const values = std::vector{0.1F, 1e8F, -1e8F, 0.7F, 3e-9F};
  auto expected = 0.0F;
  for (auto const value : values) expected += value;
  auto const sums = support::on_all_ranks(5, [&](thread_communicator& comm) {
    auto const mine = std::vector{values[comm.rank().index()], 1.0F};
    auto const inline_sum = fssdp::all_reduce(comm, mine);
    auto stream = fssdp::host_stream{};
    auto queued = fssdp::on_stream(comm, stream);
    auto const queued_sum = fssdp::all_reduce(queued, mine);
    return inline_sum == queued_sum ? inline_sum : std::vector<float>{};
  });
  for (auto const& of_rank : sums) REQUIRE(of_rank == std::vector{expected, 5.0F});
}

TEST_CASE("one rank alone gets its own values, and an empty range stays empty") {
  auto const sums = support::on_all_ranks(1, [](thread_communicator& comm) {
    return fssdp::all_reduce(comm, std::vector{4, 5});
  });
  REQUIRE(sums[0] == std::vector{4, 5});
  auto const none = support::on_all_ranks(
      2, [](thread_communicator& comm) { return fssdp::all_reduce(comm, std::vector<int>{}); });
  REQUIRE(none[1].empty());
}

TEST_CASE("sum_loads gives all ranks the tokens of all experts") {
  auto const loads = support::on_all_ranks(3, [](thread_communicator& comm) {
    auto const r = static_cast<std::uint64_t>(comm.rank().value());
    return fssdp::sum_loads(comm, fssdp::expert_loads{r, 10 * r, 1});
  });
  for (auto const& of_rank : loads) REQUIRE(of_rank == fssdp::expert_loads{3, 30, 3});
}

TEST_CASE("sum_loads refuses, on every rank, tokens that cannot be counted") {
  auto const said = support::on_all_ranks(2, [](thread_communicator& comm) {
    try {
      (void)fssdp::sum_loads(comm, fssdp::expert_loads{1, std::uint64_t{1} << 63U});
    } catch (fssdp::argument_error const& error) {
      return std::string{error.what()};
    }
    return std::string{"a sum"};
  });
  for (auto const& of_rank : said)
    REQUIRE_THAT(of_rank, mentions("sum_loads: the loads of expert 1"));
}

TEST_CASE("the documented cost: size - 1 messages out and in, one exchange") {
  auto const counts = support::on_all_ranks(4, [](thread_communicator& comm) {
    auto counted = fssdp::counting{comm};
    (void)fssdp::all_reduce(counted, std::vector<double>(3));
    return counted.counts();
  });
  for (auto const& of_rank : counts) {
    REQUIRE(of_rank.exchanges == 1);
    REQUIRE(of_rank.messages_sent == 3);
    REQUIRE(of_rank.bytes_received == 72);
  }
}
