// SPDX-License-Identifier: Apache-2.0
/// Small dense collectives: the rows of all ranks, and sums with the same bits on all ranks.
#include "fssdp/collective/all_gather.hpp"

#include <array>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/communicator_archetype.hpp"
#include "support/dice.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::thread_communicator;

TEST_CASE("row r comes from rank r, for any number of ranks and values") {
  for (int ranks = 1; ranks <= 6; ++ranks)
    for (std::size_t n : {0U, 1U, 7U}) {
      CAPTURE(ranks, n);
      auto expected = std::vector<int>{};
      for (int rank = 0; rank < ranks; ++rank)
        for (std::size_t i = 0; i < n; ++i) expected.push_back(rank * 100 + static_cast<int>(i));
      auto const rows = support::on_all_ranks(ranks, [&](thread_communicator& comm) {
        auto mine = std::vector<int>{};
        for (std::size_t i = 0; i < n; ++i)
          mine.push_back(comm.rank().value() * 100 + static_cast<int>(i));
        auto inline_rows = std::vector<int>(mine.size() * static_cast<std::size_t>(ranks));
        fssdp::all_gather(comm, mine, inline_rows);
        auto bare = support::exchange_only{comm};
        auto stream = fssdp::host_stream{};
        auto queued = fssdp::on_stream(bare, stream);
        auto queued_rows = std::vector<int>(inline_rows.size());
        fssdp::all_gather(queued, mine, queued_rows);
        return std::pair{inline_rows, queued_rows};
      });
      for (auto const& [inline_rows, queued_rows] : rows) {
        REQUIRE(inline_rows == expected);
        REQUIRE(queued_rows == expected);
      }
    }
}

TEST_CASE("any contiguous range will do") {
  auto const rows = support::on_all_ranks(2, [](thread_communicator& comm) {
    auto const mine = std::array<char, 2>{'a', static_cast<char>('x' + comm.rank().value())};
    auto all = std::vector<char>(4);
    fssdp::all_gather(comm, std::span{mine}, std::span{all});
    return std::string(all.begin(), all.end());
  });
  REQUIRE(rows == std::vector<std::string>(2, "axay"));
}

TEST_CASE("the documented cost: one exchange, size - 1 messages out and in") {
  auto const counts = support::on_all_ranks(4, [](thread_communicator& comm) {
    auto counted = fssdp::counting{comm};
    auto all = std::vector<double>(12);
    fssdp::all_gather(counted, std::vector<double>(3), all);
    return counted.counts();
  });
  for (auto const& of_rank : counts)
    REQUIRE(of_rank == fssdp::exchange_counts{.exchanges = 1,
                                              .messages_sent = 3,
                                              .bytes_sent = 72,
                                              .messages_received = 3,
                                              .bytes_received = 72});
}

TEST_CASE("an output of the wrong size is refused before anything is sent") {
  auto comm = support::communicator_archetype{fssdp::rank_id{0}};
  auto counted = fssdp::counting{comm};
  auto const mine = std::vector<int>(3);
  auto room = std::vector<int>(4);
  REQUIRE_THROWS_AS(fssdp::all_gather(counted, mine, room), fssdp::argument_error);
  REQUIRE_THROWS_WITH(fssdp::all_gather(counted, mine, room),
                      mentions("4 elements") && mentions("1 ranks times 3"));
  REQUIRE(counted.counts().exchanges == 0);
}

TEST_CASE("ranks that give different numbers of values get an error") {
  auto world = fssdp::thread_world{2};
  auto const result = support::fallout_of(world, [](thread_communicator& comm) {
    auto const n = comm.rank().index() + 1;
    auto all = std::vector<int>(2 * n);
    fssdp::all_gather(comm, std::vector<int>(n), all);
  });
  REQUIRE(support::is<fssdp::ranks_disagree>(result.of_run));
  REQUIRE(support::failed_rank(result.of_rank[0]) == 1);
  REQUIRE(support::failed_rank(result.of_rank[1]) == 0);
}
