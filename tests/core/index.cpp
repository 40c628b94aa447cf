// SPDX-License-Identifier: Apache-2.0
/// Strong indices do not mix, and their ranges count.
#include "fssdp/core/index.hpp"

#include <iterator>
#include <type_traits>

#include "catch.hpp"
#include "support/lists.hpp"

using fssdp::expert_id;
using fssdp::node_id;
using fssdp::rank_id;

static_assert(std::is_constructible_v<rank_id, int>);
static_assert(!std::is_convertible_v<int, rank_id>, "a bare number is not a rank");
static_assert(!std::is_constructible_v<rank_id, expert_id>, "an expert is not a rank");
static_assert(!std::is_constructible_v<rank_id, double>);
static_assert(std::totally_ordered<rank_id>);
static_assert(!std::equality_comparable_with<rank_id, node_id>);
static_assert(std::input_iterator<fssdp::index_range<rank_id>::iterator>);

TEST_CASE("an index counts up") {
  auto rank = rank_id{3};
  REQUIRE(rank++ == rank_id{3});
  REQUIRE(++rank == rank_id{5});
  REQUIRE(rank.value() == 5);
  REQUIRE(rank.index() == 5U);
  REQUIRE(rank_id{} == rank_id{0});
  REQUIRE(rank_id{1} < rank_id{2});
}

TEST_CASE("first_n gives 0, 1, ..., n - 1") {
  REQUIRE(support::values(fssdp::first_n<rank_id>(4)) == std::vector{0, 1, 2, 3});
  REQUIRE(fssdp::first_n<rank_id>(0).empty());
  REQUIRE(fssdp::first_n<expert_id>(7).size() == 7);
  auto const some = fssdp::index_range{expert_id{2}, expert_id{5}};
  REQUIRE(support::values(some) == std::vector{2, 3, 4});
  REQUIRE(some.size() == 3);
  REQUIRE(!some.empty());
}
