// SPDX-License-Identifier: Apache-2.0
/// What every layout promises, law by law. A model passes with a short file of its own.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/layout/shard_layout.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/verify.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "fssdp/solver/owners_only.hpp"

namespace contract {

/// What a layout is made for.
struct layout_size {
  int experts = 1;
  int ranks = 1;
  int slices = 1;

  [[nodiscard]] int chunks() const { return experts * slices; }
};

/// Model::make(layout_size) gives a layout of that size, always the same one.
template <class Model>
class layout_contract {
  using layout = decltype(Model::make(layout_size{}));
  static_assert(fssdp::shard_layout<layout>);
  using rank_id = fssdp::rank_id;
  using chunk_id = fssdp::chunk_id;

 public:
  /// All laws; a section each.
  static void check() {
    SECTION("it has the size that was asked for, and all its chunks in order") {
      for_many_sizes(check_size);
    }
    SECTION("(owner, slot) is one to one, into the ranks") { for_many_sizes(check_one_to_one); }
    SECTION("the slots of a rank are 0, 1, ..., and owned lists its chunks in their order") {
      for_many_sizes(check_owned);
    }
    SECTION("check_layout accepts it, and one that was made of nothing") {
      for_many_sizes([](layout const& of, layout_size const&) { fssdp::check_layout(of); });
      REQUIRE_NOTHROW(fssdp::check_layout(layout{}));
    }
    SECTION("it is a value: a copy outlives it, and equal sizes are equal layouts") {
      for_many_sizes(check_value);
    }
    SECTION("a shard has a slot for every chunk of its rank, as long as the longest slice") {
      for_many_sizes(check_shards);
    }
    SECTION("the experts' owners hold them, and plans bring them to all others") {
      for_many_sizes(check_plans);
    }
  }

 private:
  /// A failure prints the size.
  template <class Law>
  static void for_many_sizes(Law law) {
    for (int experts = 1; experts <= 20; ++experts)
      for (int ranks = 1; ranks <= 9; ++ranks)
        for (int slices = 1; slices <= 5; ++slices) {
          CAPTURE(experts, ranks, slices);
          auto const size = layout_size{.experts = experts, .ranks = ranks, .slices = slices};
          law(Model::make(size), size);
        }
  }

  static void check_size(layout const& of, layout_size const& size) {
    REQUIRE(of.experts() == size.experts);
    REQUIRE(of.ranks() == size.ranks);
    REQUIRE(of.slices() == size.slices);
    auto expected = std::vector<chunk_id>{};
    for (int expert = 0; expert < size.experts; ++expert)
      for (int slice = 0; slice < size.slices; ++slice)
        expected.push_back({fssdp::expert_id{expert}, fssdp::slice_id{slice}});
    auto all = std::vector<chunk_id>{};
    for (auto const chunk : fssdp::all_chunks(of)) all.push_back(chunk);
    REQUIRE(all == expected);
    REQUIRE(fssdp::all_chunks(of).size() == expected.size());
  }

  static void check_one_to_one(layout const& of, layout_size const& size) {
    auto places = std::set<std::pair<rank_id, int>>{};
    auto strangers = 0;
    for (auto const chunk : fssdp::all_chunks(of)) {
      auto const owner = of.owner(chunk);
      strangers += owner.value() < 0 || owner.value() >= size.ranks ? 1 : 0;
      places.emplace(owner, of.slot(chunk));
    }
    REQUIRE(strangers == 0);
    REQUIRE(static_cast<int>(places.size()) == size.chunks());
  }

  static void check_owned(layout const& of, layout_size const& size) {
    auto listed = 0;
    auto wrong = 0;
    for (auto const rank : fssdp::first_n<rank_id>(size.ranks)) {
      auto position = 0;
      for (chunk_id const chunk : of.owned(rank)) {
        wrong += of.owner(chunk) != rank || of.slot(chunk) != position ? 1 : 0;
        ++position;
      }
      REQUIRE(of.owned(rank).size() == static_cast<std::size_t>(position));
      listed += position;
    }
    REQUIRE(wrong == 0);
    REQUIRE(listed == size.chunks());
  }

  /// All that a layout says, as lists.
  [[nodiscard]] static auto said(layout const& of) {
    auto places = std::vector<std::pair<rank_id, int>>{};
    auto owned = std::vector<chunk_id>{};
    for (auto const chunk : fssdp::all_chunks(of))
      places.emplace_back(of.owner(chunk), of.slot(chunk));
    for (auto const rank : fssdp::first_n<rank_id>(of.ranks()))
      for (chunk_id const chunk : of.owned(rank)) owned.push_back(chunk);
    return std::pair{places, owned};
  }

  static void check_value(layout const& of, layout_size const& size) {
    REQUIRE(of == Model::make(size));
    auto const expected = said(of);
    auto original = std::optional<layout>{Model::make(size)};
    auto assigned = layout{};
    assigned = *original;
    auto const copied = *original;
    original.reset();
    REQUIRE(said(copied) == expected);
    REQUIRE(said(assigned) == expected);
    auto const moved = std::move(assigned);
    REQUIRE(said(moved) == expected);
    REQUIRE(moved == of);
    auto larger = size;
    ++larger.experts;
    REQUIRE(of != Model::make(larger));
    larger = size;
    ++larger.ranks;
    REQUIRE(of != Model::make(larger));
    larger = size;
    ++larger.slices;
    REQUIRE(of != Model::make(larger));
  }

  static void check_shards(layout const& of, layout_size const& size) {
    auto const elements = std::array<std::size_t, 3>{7, 40, 1};
    for (auto const rank : fssdp::first_n<rank_id>(size.ranks)) {
      auto const shard = fssdp::make_shard<float>(of, rank, elements);
      REQUIRE(shard.tensors().size() == elements.size());
      for (std::size_t k = 0; k < elements.size(); ++k) {
        auto const longest = (static_cast<int>(elements[k]) + size.slices - 1) / size.slices;
        REQUIRE(static_cast<int>(shard.tensors()[k].elements) == longest);
        REQUIRE(shard.tensors()[k].slots == of.owned(rank).size());
      }
    }
  }

  static void check_plans(layout const& of, layout_size const& size) {
    auto const loads = fssdp::expert_loads(static_cast<std::size_t>(size.experts));
    auto const topo = fssdp::topology{{.nodes = (size.ranks + 2) / 3, .ranks = size.ranks}};
    auto away = std::size_t{0};  // chunks that do not lie with the owner of their expert
    for (auto const chunk : fssdp::all_chunks(of))
      away += of.owner(chunk) != of.owner(chunk.expert) ? 1 : 0;
    auto const to_all_others = static_cast<std::size_t>(size.chunks() * (size.ranks - 1));

    auto const check = [&](fssdp::placement const& where, std::size_t transfers) {
      fssdp::check_contains(where, of);
      for (auto const& plan : {make_plan(of, where), make_plan(of, where, topo)}) {
        fssdp::verify(plan);
        REQUIRE(plan.transfers().size() == transfers);
      }
    };
    check(fssdp::owners_only{}(loads, of), away);
    check(fssdp::everywhere{}(loads, of), to_all_others);
  }
};

}  // namespace contract
