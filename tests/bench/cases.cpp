// SPDX-License-Identifier: Apache-2.0
// The cases of fssdp_perf and inspect_plan: how many replicas there are, and where.
#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

#include "cases/cases.hpp"
#include "catch.hpp"
#include "fssdp/all.hpp"

namespace {

using cases::case_kind;
using fssdp::expert_id;
using fssdp::rank_id;

cases::scene scene_of(case_kind which, int experts, int ranks, int nodes, std::uint64_t seed) {
  return cases::make_scene(which, fssdp::topology{{.nodes = nodes, .ranks = ranks}}, experts, seed);
}

/// [expert]: the ranks that hold it besides its owner.
std::vector<int> copies(cases::scene const& of) {
  auto counts = std::vector<int>{};
  for (auto const expert : fssdp::first_n<expert_id>(of.layout.experts()))
    counts.push_back(static_cast<int>(of.where.holders(expert).size()) - 1);
  return counts;
}

}  // namespace

TEST_CASE("pairs: every expert has two replicas, or as many as there are other ranks") {
  CHECK(copies(scene_of(case_kind::pairs, 16, 8, 2, 3)) == std::vector<int>(16, 2));
  CHECK(copies(scene_of(case_kind::pairs, 5, 2, 1, 3)) == std::vector<int>(5, 1));
  CHECK(copies(scene_of(case_kind::pairs, 2, 1, 1, 3)) == std::vector<int>(2, 0));
}

TEST_CASE("hot: all ranks hold one expert in sixteen, the others stay with their owners") {
  auto counts = copies(scene_of(case_kind::hot, 64, 8, 2, 3));
  CHECK(std::ranges::count(counts, 7) == 4);
  CHECK(std::ranges::count(counts, 0) == 60);
  counts = copies(scene_of(case_kind::hot, 8, 4, 1, 3));
  CHECK(std::ranges::count(counts, 3) == 1);
  CHECK(std::ranges::count(counts, 0) == 7);
}

TEST_CASE("hot-node: the hot experts are owned by node 0") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    auto const placed = scene_of(case_kind::hot_node, 64, 8, 4, seed);
    auto const counts = copies(placed);
    CAPTURE(seed);
    CHECK(std::ranges::count(counts, 7) == 4);
    CHECK(std::ranges::count(counts, 0) == 60);
    for (auto const expert : fssdp::first_n<expert_id>(64))
      if (counts[expert.index()] != 0)
        CHECK(placed.topology.node(placed.layout.owner(expert)) == fssdp::node_id{0});
  }
}

TEST_CASE("zipf: no rank holds more than four others, and the most loaded are where they fit") {
  auto const placed = scene_of(case_kind::zipf, 64, 8, 2, 5);
  auto const counts = copies(placed);
  for (auto const rank : fssdp::first_n<rank_id>(8)) CHECK(placed.where.held_count(rank) <= 8 + 4);
  CHECK(std::ranges::count_if(counts, [](int n) { return n > 0; }) == 16);
  CHECK(std::ranges::max(counts) > 1);
  // a quarter of eight experts fits into four slots: those two are everywhere
  auto const few = copies(scene_of(case_kind::zipf, 8, 4, 1, 5));
  CHECK(std::ranges::count(few, 3) == 2);
  CHECK(std::ranges::count(few, 0) == 6);
}

TEST_CASE("random: up to a third of the ranks hold an expert, and every number occurs") {
  auto seen = std::set<int>{};
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    for (auto const count : copies(scene_of(case_kind::random, 36, 12, 3, seed)))
      seen.insert(count);
  CHECK(seen == std::set{0, 1, 2, 3, 4});
}

TEST_CASE("a case depends on its seed and on nothing else") {
  for (auto const which : {case_kind::pairs, case_kind::hot, case_kind::zipf, case_kind::hot_node,
                           case_kind::random}) {
    CAPTURE(cases::name_of(which));
    auto const placed = scene_of(which, 64, 8, 2, 7);
    CHECK(placed.where == scene_of(which, 64, 8, 2, 7).where);
    CHECK(placed.where != scene_of(which, 64, 8, 2, 8).where);
  }
}

TEST_CASE("everywhere keeps the layout of a scene, and all ranks hold all experts") {
  auto const placed = scene_of(case_kind::pairs, 6, 3, 1, 1);
  auto const dense = cases::everywhere(placed);
  CHECK(dense.layout == placed.layout);
  CHECK(copies(dense) == std::vector<int>(6, 2));
  CHECK(cases::replicas(dense) == 12);
  CHECK(cases::replicas(scene_of(case_kind::hot, 6, 3, 1, 1)) == 2);
}
