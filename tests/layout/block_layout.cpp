// SPDX-License-Identifier: Apache-2.0
/// block_layout: consecutive chunks, as equally many for every rank as can be.
#include "fssdp/layout/block_layout.hpp"

#include <vector>

#include "catch.hpp"
#include "support/lists.hpp"

using fssdp::block_layout;
using fssdp::expert_id;
using fssdp::rank_id;

TEST_CASE("blocks are consecutive, ascending, and differ by at most one, the longer ones first") {
  for (int experts = 1; experts <= 32; ++experts)
    for (int ranks = 1; ranks <= 20; ++ranks)
      for (int slices = 1; slices <= 3; ++slices) {
        CAPTURE(experts, ranks, slices);
        auto const layout = block_layout{{.experts = experts, .ranks = ranks, .slices = slices}};
        auto const chunks = experts * slices;
        auto all = std::vector<int>{};
        for (auto const rank : fssdp::first_n<rank_id>(ranks)) {
          auto const longer = rank.value() < chunks % ranks ? 1 : 0;
          REQUIRE(static_cast<int>(layout.owned(rank).size()) == chunks / ranks + longer);
          for (auto const chunk : layout.owned(rank))
            all.push_back(chunk.expert.value() * slices + chunk.slice.value());
        }
        REQUIRE(all == support::values(fssdp::first_n<expert_id>(chunks)));
      }
}

TEST_CASE("five experts on three ranks, whole and in two slices") {
  auto const owners = [](block_layout const& layout) {
    auto ranks = std::vector<int>{};
    for (auto const expert : fssdp::first_n<expert_id>(layout.experts()))
      ranks.push_back(layout.owner(expert).value());
    return ranks;
  };
  REQUIRE(owners(block_layout{{.experts = 5, .ranks = 3}}) == std::vector{0, 0, 1, 1, 2});
  // blocks of 4, 3 and 3 slices: e0 e0 e1 e1 | e2 e2 e3 | e3 e4 e4
  auto const sliced = block_layout{{.experts = 5, .ranks = 3, .slices = 2}};
  REQUIRE(owners(sliced) == std::vector{0, 0, 1, 1, 2});
  auto const second = fssdp::chunk_id{expert_id{3}, fssdp::slice_id{1}};
  REQUIRE(sliced.owner(second) == rank_id{2});
  REQUIRE(sliced.slot(second) == 0);
}

TEST_CASE("a layout of nothing, or of more chunks than can be counted, is refused") {
  auto const refused = [](block_layout::shape const& of, auto const& named) {
    REQUIRE_THROWS_AS(block_layout{of}, fssdp::argument_error);
    REQUIRE_THROWS_WITH(block_layout{of}, mentions("block_layout"));
    REQUIRE_THROWS_WITH(block_layout{of}, named);
  };
  refused({.experts = 0, .ranks = 2}, mentions("0 experts") && mentions("1 or more"));
  refused({.experts = 2, .ranks = -1}, mentions("-1 ranks") && mentions("1 or more"));
  refused({.slices = 0}, mentions("0 slices") && mentions("1 or more"));
  refused({.experts = 1 << 30, .slices = 2}, mentions("1073741824 experts in 2 slices"));
}
