// SPDX-License-Identifier: Apache-2.0
/// cyclic_layout assigns chunks to ranks in turn: cases worked by hand.
#include "fssdp/layout/cyclic_layout.hpp"

#include <utility>
#include <vector>

#include "catch.hpp"
#include "support/lists.hpp"

using fssdp::cyclic_layout;
using fssdp::expert_id;
using fssdp::rank_id;
using fssdp::slice_id;

namespace {

using pairs = std::vector<std::pair<int, int>>;

/// (expert, slice) of what a rank owns.
[[nodiscard]] pairs owned(cyclic_layout const& layout, int rank) {
  auto list = pairs{};
  for (auto const [expert, slice] : layout.owned(rank_id{rank}))
    list.emplace_back(expert.value(), slice.value());
  return list;
}

[[nodiscard]] std::vector<int> owners(cyclic_layout const& layout) {
  auto ranks = std::vector<int>{};
  for (auto const expert : fssdp::first_n<expert_id>(layout.experts()))
    ranks.push_back(layout.owner(expert).value());
  return ranks;
}

}  // namespace

TEST_CASE("whole experts are assigned to ranks in turn") {
  auto const layout = cyclic_layout{{.experts = 5, .ranks = 3}};
  REQUIRE(owners(layout) == std::vector{0, 1, 2, 0, 1});
  REQUIRE(owned(layout, 0) == pairs{{0, 0}, {3, 0}});
  REQUIRE(owned(layout, 1) == pairs{{1, 0}, {4, 0}});
  REQUIRE(owned(layout, 2) == pairs{{2, 0}});
}

TEST_CASE("with as many slices as ranks every rank owns a slice of each expert") {
  // owner of slice s of expert e:   e0: 0 1 2   e1: 1 2 0   e2: 2 0 1   e3: 0 1 2
  auto const layout = cyclic_layout{{.experts = 4, .ranks = 3, .slices = 3}};
  REQUIRE(owners(layout) == std::vector{0, 1, 2, 0});
  REQUIRE(owned(layout, 0) == pairs{{0, 0}, {1, 2}, {2, 1}, {3, 0}});
  REQUIRE(owned(layout, 1) == pairs{{0, 1}, {1, 0}, {2, 2}, {3, 1}});
  REQUIRE(owned(layout, 2) == pairs{{0, 2}, {1, 1}, {2, 0}, {3, 2}});
  REQUIRE(layout.slot({expert_id{2}, slice_id{2}}) == 2);
}

TEST_CASE("with more slices than ranks a rank owns several of an expert") {
  // e0: 0 1 0   e1: 1 0 1
  auto const layout = cyclic_layout{{.experts = 2, .ranks = 2, .slices = 3}};
  REQUIRE(owned(layout, 0) == pairs{{0, 0}, {0, 2}, {1, 1}});
  REQUIRE(owned(layout, 1) == pairs{{0, 1}, {1, 0}, {1, 2}});
  REQUIRE(layout.slot({expert_id{0}, slice_id{2}}) == 1);
  REQUIRE(layout.slot({expert_id{1}, slice_id{2}}) == 2);
}

TEST_CASE("with fewer slices than ranks slices are assigned in turn, too") {
  // e0: 0 1   e1: 1 2   e2: 2 3   e3: 3 0   e4: 0 1
  auto const layout = cyclic_layout{{.experts = 5, .ranks = 4, .slices = 2}};
  REQUIRE(owned(layout, 0) == pairs{{0, 0}, {3, 1}, {4, 0}});
  REQUIRE(owned(layout, 1) == pairs{{0, 1}, {1, 0}, {4, 1}});
  REQUIRE(owned(layout, 2) == pairs{{1, 1}, {2, 0}});
  REQUIRE(owned(layout, 3) == pairs{{2, 1}, {3, 0}});
}

TEST_CASE("as many slices as ranks: one of every expert on each rank, in slot e, owners rotate") {
  for (int experts = 1; experts <= 12; ++experts)
    for (int ranks = 1; ranks <= 9; ++ranks) {
      CAPTURE(experts, ranks);
      auto const layout = cyclic_layout{{.experts = experts, .ranks = ranks, .slices = ranks}};
      auto wrong = 0;
      for (auto const rank : fssdp::first_n<rank_id>(ranks)) {
        auto next = 0;
        for (auto const chunk : layout.owned(rank)) {
          wrong += chunk.expert.value() != next || layout.slot(chunk) != next ? 1 : 0;
          ++next;
        }
        wrong += next != experts ? 1 : 0;
      }
      for (int expert = 0; expert < experts; ++expert)
        wrong += owners(layout)[static_cast<std::size_t>(expert)] != expert % ranks ? 1 : 0;
      REQUIRE(wrong == 0);
    }
}

TEST_CASE("no two ranks own numbers of whole experts that differ by more than one") {
  for (int experts = 1; experts <= 20; ++experts)
    for (int ranks = 1; ranks <= 9; ++ranks) {
      CAPTURE(experts, ranks);
      auto const layout = cyclic_layout{{.experts = experts, .ranks = ranks}};
      auto const of = [&](int rank) { return static_cast<int>(owned(layout, rank).size()); };
      for (int rank = 0; rank < ranks; ++rank)
        REQUIRE(of(rank) == experts / ranks + (rank < experts % ranks ? 1 : 0));
    }
}

TEST_CASE("a cyclic layout of nothing, or of more chunks than can be counted, is refused") {
  auto const refused = [](cyclic_layout::shape const& of, auto const& named) {
    REQUIRE_THROWS_AS(cyclic_layout{of}, fssdp::argument_error);
    REQUIRE_THROWS_WITH(cyclic_layout{of}, mentions("cyclic_layout"));
    REQUIRE_THROWS_WITH(cyclic_layout{of}, named);
  };
  refused({.experts = 0}, mentions("0 experts") && mentions("1 or more"));
  refused({.ranks = -2}, mentions("-2 ranks") && mentions("1 or more"));
  refused({.slices = 0}, mentions("0 slices") && mentions("1 or more"));
  refused({.experts = 1 << 20, .slices = 1 << 11}, mentions("1048576 experts in 2048 slices"));
}
