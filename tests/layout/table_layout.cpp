// SPDX-License-Identifier: Apache-2.0
/// table_layout: any owners, slots that ascend; invalid tables are refused.
#include "fssdp/layout/table_layout.hpp"

#include <utility>
#include <vector>

#include "catch.hpp"
#include "support/lists.hpp"

using fssdp::expert_id;
using fssdp::rank_id;
using fssdp::slice_id;
using fssdp::table_layout;

namespace {

[[nodiscard]] std::vector<rank_id> ranks(std::vector<int> const& numbers) {
  auto list = std::vector<rank_id>{};
  for (auto const number : numbers) list.emplace_back(number);
  return list;
}

using list = std::vector<std::pair<int, int>>;

/// (expert, slice) of what a rank owns.
[[nodiscard]] list owned(table_layout const& layout, int rank) {
  auto of = list{};
  for (auto const [expert, slice] : layout.owned(rank_id{rank}))
    of.emplace_back(expert.value(), slice.value());
  return of;
}

}  // namespace

TEST_CASE("whole experts lie where the table says, in ascending slots") {
  auto const layout = table_layout{{.ranks = 4}, ranks({2, 0, 2, 2, 0})};
  REQUIRE(layout.experts() == 5);
  REQUIRE(layout.slices() == 1);
  REQUIRE(owned(layout, 0) == list{{1, 0}, {4, 0}});
  REQUIRE(owned(layout, 1) == list{});
  REQUIRE(owned(layout, 2) == list{{0, 0}, {2, 0}, {3, 0}});
  REQUIRE(owned(layout, 3) == list{});
  REQUIRE(layout.owner(expert_id{3}) == rank_id{2});
  REQUIRE(layout.slot(expert_id{3}) == 2);
  REQUIRE(layout.slot(expert_id{4}) == 1);
}

TEST_CASE("the table of sliced experts has the slices of an expert one after the other") {
  auto const layout = table_layout{{.ranks = 3, .slices = 2}, ranks({0, 2, 2, 2, 1, 0})};
  REQUIRE(layout.experts() == 3);
  REQUIRE(owned(layout, 0) == list{{0, 0}, {2, 1}});
  REQUIRE(owned(layout, 1) == list{{2, 0}});
  REQUIRE(owned(layout, 2) == list{{0, 1}, {1, 0}, {1, 1}});
  REQUIRE(layout.owner({expert_id{2}, slice_id{1}}) == rank_id{0});
  REQUIRE(layout.slot({expert_id{1}, slice_id{1}}) == 2);
  REQUIRE(layout.owner(expert_id{2}) == rank_id{1});  // the owner: that of slice 0
}

TEST_CASE("tables are equal if they say the same") {
  auto const table = ranks({0, 1, 1, 0});
  REQUIRE(table_layout{{.ranks = 2}, table} == table_layout{{.ranks = 2}, table});
  REQUIRE(table_layout{{.ranks = 2}, table} != table_layout{{.ranks = 3}, table});
  REQUIRE(table_layout{{.ranks = 2}, table} != table_layout{{.ranks = 2, .slices = 2}, table});
  REQUIRE(table_layout{{.ranks = 2}, table} != table_layout{{.ranks = 2}, ranks({0, 1, 1, 1})});
  REQUIRE(table_layout{} == table_layout{{.ranks = 1}, ranks({0})});
}

TEST_CASE("an invalid table is an error that names the value") {
  auto const refused = [](table_layout::shape const& of, std::vector<int> const& owners,
                          auto const& named) {
    REQUIRE_THROWS_AS((table_layout{of, ranks(owners)}), fssdp::argument_error);
    REQUIRE_THROWS_WITH((table_layout{of, ranks(owners)}), mentions("table_layout"));
    REQUIRE_THROWS_WITH((table_layout{of, ranks(owners)}), named);
  };
  refused({.ranks = 2}, {}, mentions("owners of 0 chunks") && mentions("one expert or more"));
  refused({.ranks = 2, .slices = 3}, {0, 1, 0, 1},
          mentions("owners of 4 chunks") && mentions("expected 3 for every expert"));
  refused({.ranks = 2}, {0, 2}, mentions("owner 2") && mentions("ranks from 0 to 1"));
  refused({.ranks = 2}, {0, -1}, mentions("owner -1") && mentions("ranks from 0 to 1"));
  refused({.ranks = 0}, {0}, mentions("0 ranks") && mentions("1 or more"));
  refused({.ranks = 1, .slices = 0}, {0}, mentions("0 slices") && mentions("1 or more"));
  refused({.ranks = 1, .slices = -3}, {0}, mentions("-3 slices") && mentions("1 or more"));
}
