// SPDX-License-Identifier: Apache-2.0
/// How every rank gets the counts of all.
#include "fssdp/token/gather_counts.hpp"

#include <vector>

#include "catch.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/on_all_ranks.hpp"

using numbers = std::vector<std::uint64_t>;

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
