// SPDX-License-Identifier: Apache-2.0
/// Rows of tokens go between processes as between threads, by segments and in one message.
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/mpi.hpp"
#include "mpi/processes.hpp"
#include "support/laws.hpp"
#include "support/moved_rows.hpp"
#include "support/on_all_ranks.hpp"
#include "support/random_counts.hpp"

TEST_CASE("tokens reach their experts and come back between processes as between threads") {
  using fssdp::row_order;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    CAPTURE(seed);
    auto const limits =
        support::size_limits{.ranks = mpi_tests::processes().size(), .nodes = 3, .experts = 16};
    auto const of = support::random_instance{seed, limits};
    auto const counts = support::random_counts(of, seed);
    auto const orders =
        fssdp::row_orders{seed % 2 == 0 ? row_order::by_expert : row_order::by_rank,
                          seed / 2 % 2 == 0 ? row_order::by_expert : row_order::by_rank};
    auto const how = fssdp::token_options{.pack_below = seed <= 4 ? 0 : std::size_t(-1)};
    auto const expected =
        support::on_all_ranks(of.plan.ranks(), [&](fssdp::thread_communicator& comm) {
          return support::move_rows(comm, counts, of, orders);
        });
    auto const wrong = mpi_tests::sum_over(of.plan.ranks(), {}, [&](fssdp::mpi_communicator& comm) {
      auto const found = support::move_rows(comm, counts, of, orders, how);
      return found == expected[comm.rank().index()] ? 0 : 1;
    });
    REQUIRE(wrong == 0);
  }
}
