// SPDX-License-Identifier: Apache-2.0
/// The matrix of tokens per rank and expert.
#include "fssdp/routing/token_counts.hpp"

#include <vector>

#include "catch.hpp"

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

TEST_CASE("loads that cannot be counted are refused, and do not wrap around") {
  constexpr auto half = std::uint64_t{1} << 63U;
  REQUIRE(fssdp::token_counts{2, 2, {0, half, 1, half - 1}}.loads()[1] == 2 * (half - 1) + 1);
  auto const counts = fssdp::token_counts{2, 2, {0, half, 1, half}};
  REQUIRE_THROWS_AS(counts.loads(), fssdp::argument_error);
  REQUIRE_THROWS_WITH(counts.loads(), mentions("expert 1") && mentions("9223372036854775808"));
}

TEST_CASE("a matrix of another size is refused by name") {
  REQUIRE_THROWS_AS((token_counts{2, 3, numbers(5)}), fssdp::argument_error);
  REQUIRE_THROWS_WITH((token_counts{2, 3, numbers(5)}),
                      mentions("5 values") && mentions("2 ranks times 3 experts"));
  REQUIRE_THROWS_AS((token_counts{0, 3, numbers{}}), fssdp::argument_error);
  REQUIRE_THROWS_WITH((token_counts{2, 0, numbers{}}), mentions("0 experts") && mentions("1 or"));
}
