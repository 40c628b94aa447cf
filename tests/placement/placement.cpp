// SPDX-License-Identifier: Apache-2.0
/// Who holds what, on either side of a 64-rank word.
#include "fssdp/placement/placement.hpp"

#include <set>
#include <utility>

#include "catch.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "support/dice.hpp"
#include "support/lists.hpp"
#include "support/reversed_layout.hpp"

using fssdp::block_layout;
using fssdp::expert_id;
using fssdp::placement;
using fssdp::rank_id;

static_assert(std::regular<placement>);
static_assert(std::forward_iterator<fssdp::holder_range::iterator>);

TEST_CASE("a new placement has the owners only") {
  auto const layout = block_layout{{.experts = 5, .ranks = 3}};
  auto const where = placement{layout};
  REQUIRE(where.experts() == 5);
  REQUIRE(where.ranks() == 3);
  REQUIRE(support::holders(where) == std::vector<std::vector<int>>{{0}, {0}, {1}, {1}, {2}});
  REQUIRE(where.held_count(rank_id{0}) == 2);
  REQUIRE(where.held_count(rank_id{2}) == 1);
}

TEST_CASE("a placement is the set of pairs that were added, for any number of ranks") {
  for (auto const ranks : {1, 2, 63, 64, 65, 127, 128, 129, 130, 200}) {
    CAPTURE(ranks);
    auto draw = support::dice{static_cast<std::uint64_t>(ranks)};
    auto const layout = block_layout{{.experts = 7, .ranks = ranks}};
    auto where = placement{layout};
    auto naive = std::vector<std::set<int>>(7);
    for (auto const expert : fssdp::first_n<expert_id>(7))
      naive[expert.index()].insert(layout.owner(expert).value());
    for (int i = 0; i < 3 * ranks; ++i) {
      // mostly around the edges of the words
      auto const near = draw.one_of(std::vector{0, 62, 63, 64, 65, 127, 128, ranks - 1});
      auto const rank = draw.chance(30) || near >= ranks ? draw.between(0, ranks - 1) : near;
      auto const expert = draw.between(0, 6);
      where.add(expert_id{expert}, rank_id{rank});
      naive[static_cast<std::size_t>(expert)].insert(rank);
    }
    for (auto const expert : fssdp::first_n<expert_id>(7)) {
      auto const& expected = naive[expert.index()];
      REQUIRE(support::values(where.holders(expert)) ==
              std::vector<int>(expected.begin(), expected.end()));
      REQUIRE(where.holders(expert).size() == expected.size());
      for (auto const rank : fssdp::first_n<rank_id>(ranks))
        REQUIRE(where.holds(rank, expert) == expected.contains(rank.value()));
    }
    for (auto const rank : fssdp::first_n<rank_id>(ranks)) {
      auto count = 0;
      for (auto const& set : naive) count += set.contains(rank.value()) ? 1 : 0;
      REQUIRE(where.held_count(rank) == count);
    }
  }
}

TEST_CASE("every rank can be the only holder") {
  for (auto const ranks : {1, 63, 64, 65, 130})
    for (auto const owner : fssdp::first_n<rank_id>(ranks)) {
      auto const where = placement{support::reversed_layout{ranks, {owner}}};
      REQUIRE(support::values(where.holders(expert_id{0})) == std::vector{owner.value()});
    }
}

TEST_CASE("adding twice changes nothing, and order does not matter") {
  auto const layout = block_layout{{.experts = 4, .ranks = 70}};
  auto a = placement{layout};
  auto b = placement{layout};
  REQUIRE(a == b);
  a.add(expert_id{1}, rank_id{69});
  REQUIRE(a != b);
  b.add(expert_id{2}, rank_id{5});
  b.add(expert_id{1}, rank_id{69});
  a.add(expert_id{2}, rank_id{5});
  a.add(expert_id{2}, rank_id{5});
  REQUIRE(a == b);
}

TEST_CASE("an expert or a rank that does not exist is an error that names it") {
  auto where = placement{block_layout{{.experts = 4, .ranks = 3}}};
  auto const before = where;
  auto const refuses = [&](int expert, int rank, char const* name, char const* expected) {
    REQUIRE_THROWS_AS(where.add(expert_id{expert}, rank_id{rank}), fssdp::argument_error);
    REQUIRE_THROWS_WITH(where.add(expert_id{expert}, rank_id{rank}),
                        mentions(name) && mentions(expected));
  };
  refuses(4, 0, "expert 4", "0 to 3");
  refuses(-1, 0, "expert -1", "0 to 3");
  refuses(0, 3, "rank 3", "0 to 2");
  refuses(0, -1, "rank -1", "0 to 2");
  REQUIRE(where == before);
}

TEST_CASE("a placement over nothing is refused") {
  struct numbers : block_layout {
    int count = 1;
    [[nodiscard]] int experts() const { return count; }
    bool operator==(numbers const&) const = default;
  };
  auto layout = numbers{};
  for (auto const count : {0, -5}) {
    layout.count = count;
    REQUIRE_THROWS_AS(placement{layout}, fssdp::argument_error);
    REQUIRE_THROWS_WITH(placement{layout},
                        mentions(std::to_string(count) + " experts") && mentions("1 or more"));
  }
}

TEST_CASE("a placement of another layout is refused") {
  auto const layout = block_layout{{.experts = 4, .ranks = 2}};
  REQUIRE_NOTHROW(fssdp::check_contains(placement{layout}, layout));
  auto const refuses = [&](placement const& where, char const* a, char const* b) {
    REQUIRE_THROWS_AS(fssdp::check_contains(where, layout), fssdp::argument_error);
    REQUIRE_THROWS_WITH(fssdp::check_contains(where, layout), mentions(a) && mentions(b));
  };
  refuses(placement{block_layout{{.experts = 5, .ranks = 2}}}, "5 experts", "4");
  refuses(placement{block_layout{{.experts = 4, .ranks = 3}}}, "3 ranks", "2");
  auto const r = [](int rank) { return rank_id{rank}; };
  refuses(placement{support::reversed_layout{2, {r(0), r(0), r(1), r(0)}}}, "expert 3", "rank 1");
}
