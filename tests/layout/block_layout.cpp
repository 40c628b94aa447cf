// SPDX-License-Identifier: Apache-2.0
/// block_layout obeys the laws of a layout, for every shape.
#include "fssdp/layout/block_layout.hpp"

#include <set>
#include <utility>

#include "catch.hpp"
#include "support/lists.hpp"
#include "support/reversed_layout.hpp"

using fssdp::block_layout;
using fssdp::expert_id;
using fssdp::rank_id;

namespace {

/// What is wrong with a layout; empty if nothing is.
template <fssdp::shard_layout Layout>
[[nodiscard]] std::string broken_law(Layout const& layout) {
  auto places = std::set<std::pair<int, int>>{};
  for (auto const expert : fssdp::first_n<expert_id>(layout.experts())) {
    auto const owner = layout.owner(expert).value();
    if (owner < 0 || owner >= layout.ranks()) return "an owner is no rank";
    places.emplace(owner, layout.slot(expert));
  }
  if (static_cast<int>(places.size()) != layout.experts()) return "two experts share a slot";
  auto listed = 0;
  for (auto const rank : fssdp::first_n<rank_id>(layout.ranks())) {
    auto slot = 0;
    for (auto const expert : layout.owned(rank)) {
      if (layout.owner(expert) != rank) return "owned lists another rank's expert";
      if (layout.slot(expert) != slot++) return "owned is not in slot order";
    }
    if (static_cast<std::size_t>(slot) != layout.owned(rank).size())
      return "owned has a wrong size";
    listed += slot;
  }
  return listed == layout.experts() ? "" : "owned leaves experts out";
}

}  // namespace

TEST_CASE("(owner, slot) is one to one and owned lists it, for every shape") {
  for (int experts = 1; experts <= 64; ++experts)
    for (int ranks = 1; ranks <= 70; ++ranks) {
      CAPTURE(experts, ranks);
      auto const layout = block_layout{{.experts = experts, .ranks = ranks}};
      REQUIRE(broken_law(layout) == "");
    }
}

TEST_CASE("blocks are consecutive, ascending, and differ by at most one, the longer ones first") {
  for (int experts = 1; experts <= 32; ++experts)
    for (int ranks = 1; ranks <= 20; ++ranks) {
      CAPTURE(experts, ranks);
      auto const layout = block_layout{{.experts = experts, .ranks = ranks}};
      auto all = std::vector<int>{};
      for (auto const rank : fssdp::first_n<rank_id>(ranks)) {
        auto const longer = rank.value() < experts % ranks ? 1 : 0;
        REQUIRE(static_cast<int>(layout.owned(rank).size()) == experts / ranks + longer);
        for (auto const chunk : layout.owned(rank)) all.push_back(chunk.expert.value());
      }
      REQUIRE(all == support::values(fssdp::first_n<expert_id>(experts)));
    }
}

TEST_CASE("a user's layout obeys the same laws") {
  auto const r = [](int rank) { return rank_id{rank}; };
  REQUIRE(broken_law(support::reversed_layout{3, {r(2), r(0), r(2), r(2), r(0)}}) == "");
}

TEST_CASE("block_layout is a value") {
  REQUIRE(block_layout{} == block_layout{{.experts = 1, .ranks = 1}});
  REQUIRE(block_layout{{.experts = 4, .ranks = 2}} != block_layout{{.experts = 4, .ranks = 4}});
}

TEST_CASE("a layout without experts or ranks is refused") {
  REQUIRE_THROWS_AS((block_layout{{.experts = 0, .ranks = 2}}), fssdp::argument_error);
  REQUIRE_THROWS_WITH((block_layout{{.experts = 0, .ranks = 2}}),
                      mentions("0 experts") && mentions("1 or more"));
  REQUIRE_THROWS_AS((block_layout{{.experts = 2, .ranks = -1}}), fssdp::argument_error);
  REQUIRE_THROWS_WITH((block_layout{{.experts = 2, .ranks = -1}}),
                      mentions("-1 ranks") && mentions("1 or more"));
}
