// SPDX-License-Identifier: Apache-2.0
/// Rows of tokens go between devices of one process as between threads.
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/thread.hpp"
#include "peer/devices.hpp"
#include "support/laws.hpp"
#include "support/moved_rows.hpp"
#include "support/on_all_ranks.hpp"
#include "support/random_counts.hpp"

TEST_CASE("tokens reach their experts and come back between devices of one process") {
  gpu_double::reset();
  using fssdp::row_order;
  auto turn = 0;
  support::for_random_instances(
      support::some_instances,
      [&](support::random_instance const& of) {
        auto const counts = support::random_counts(of, of.loads.size());
        auto const ranks = of.plan.ranks();
        auto const order = [&](int cycle) {
          return turn / cycle % 2 == 0 ? row_order::by_expert : row_order::by_rank;
        };
        auto const orders = fssdp::row_orders{order(1), order(2)};
        // a message for each rank, or for each segment
        auto const how = turn / 4 % 2 == 0 ? fssdp::token_options{.pack_below = std::size_t(-1)}
                                           : fssdp::token_options{};
        ++turn;
        auto const here = support::on_all_ranks(ranks, [&](fssdp::thread_communicator& comm) {
          return support::move_rows(comm, counts, of, orders);
        });
        auto const there = peer_tests::results_of({.ranks = ranks}, [&](auto& comm) {
          return support::move_rows(comm, counts, of, orders, how);
        });
        REQUIRE(here == there);
      },
      {.ranks = 6, .nodes = 3, .experts = 16});
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}
