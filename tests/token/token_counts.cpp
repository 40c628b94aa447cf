// SPDX-License-Identifier: Apache-2.0
/// The matrix of counts, and how every rank gets it.
#include "fssdp/token/token_counts.hpp"

#include <vector>

#include "catch.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::token_counts;
using numbers = std::vector<std::uint64_t>;

TEST_CASE("counts are [ranks, experts], loads their columns' sums") {
  auto const counts = token_counts{2, 3, {1, 2, 3, 10, 20, 30}};
  REQUIRE(counts.ranks() == 2);
  REQUIRE(counts.experts() == 3);
  REQUIRE(counts(fssdp::rank_id{1}, fssdp::expert_id{0}) == 10);
  REQUIRE(counts(fssdp::rank_id{0}, fssdp::expert_id{2}) == 3);
  REQUIRE(counts.loads() == fssdp::expert_loads{11, 22, 33});
}

TEST_CASE("every rank gets the counts of all, in one exchange") {
  auto const seen = support::on_all_ranks(3, [](fssdp::thread_communicator& comm) {
    auto counted = fssdp::counting{comm};
    auto const r = static_cast<std::uint64_t>(comm.rank().value());
    auto const counts = fssdp::gather_counts(counted, numbers{r, 10 + r});
    auto const values = numbers(counts.values().begin(), counts.values().end());
    return std::pair{values, counted.counts()};
  });
  for (auto const& [values, cost] : seen) {
    REQUIRE(values == numbers{0, 10, 1, 11, 2, 12});
    REQUIRE(cost.exchanges == 1);
    REQUIRE(cost.messages_sent == 2);
    REQUIRE(cost.bytes_sent == 2 * 2 * 8);
  }
}

TEST_CASE("a matrix of another size is refused by name") {
  REQUIRE_THROWS_AS((token_counts{2, 3, numbers(5)}), fssdp::argument_error);
  REQUIRE_THROWS_WITH((token_counts{2, 3, numbers(5)}),
                      mentions("5 values") && mentions("2 ranks times 3 experts"));
  REQUIRE_THROWS_AS((token_counts{0, 3, numbers{}}), fssdp::argument_error);
  REQUIRE_THROWS_WITH((token_counts{2, 0, numbers{}}), mentions("0 experts") && mentions("1 or"));
}
