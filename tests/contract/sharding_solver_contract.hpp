// SPDX-License-Identifier: Apache-2.0
/// What every sharding solver promises, law by law. A model passes with a short file of its own.
#pragma once

#include <cstddef>
#include <vector>

#include "catch.hpp"
#include "fssdp/solver/sharding_solver.hpp"
#include "support/random_layers.hpp"
#include "support/scaled.hpp"

namespace contract {

/// Model::make() gives a solver, always the same one.
template <class Model>
class sharding_solver_contract {
  using solver = decltype(Model::make());
  using loads = std::vector<fssdp::expert_loads>;
  static_assert(fssdp::sharding_solver<solver>);

 public:
  /// All laws; a section each.
  static void check() {
    SECTION("every expert of every layer has one owner among the ranks") {
      for_many_inputs(check_layouts);
    }
    SECTION("every rank owns its part of all experts, as equal as it can be") {
      for_many_inputs(check_shares);
    }
    SECTION("equal inputs give equal layouts, whatever was asked before") {
      for_many_inputs([](loads const& of, fssdp::topology const& topo) {
        auto const solve = Model::make();
        auto const first = owners(solve(of, topo));
        (void)solve(loads(of.size(), of.front()), topo);
        REQUIRE(owners(solve(of, topo)) == first);
        REQUIRE(owners(Model::make()(of, topo)) == first);
      });
    }
    SECTION("the scale of the loads changes nothing, up to the end of 64 bits") {
      for_many_inputs([](loads const& of, fssdp::topology const& topo) {
        auto const expected = owners(Model::make()(of, topo));
        for (auto const factor : support::scales(of))
          REQUIRE(owners(Model::make()(support::scaled(of, factor), topo)) == expected);
      });
    }
    SECTION("no loads at all, one layer, and fewer experts than ranks are inputs like any") {
      auto const topo = fssdp::topology{{.nodes = 3, .ranks = 8}};
      for (std::size_t layers = 1; layers <= 4; ++layers)
        for (std::size_t experts = 1; experts <= 9; ++experts)
          for (auto const load : {0U, 1U}) {
            CAPTURE(layers, experts, load);
            auto const of = loads(layers, fssdp::expert_loads(experts, load));
            check_layouts(of, topo);
            check_shares(of, topo);
          }
    }
    SECTION("inputs that cannot be are refused, and the value is named") { check_refusals(); }
  }

 private:
  template <class Law>
  static void for_many_inputs(Law law) {
    support::for_random_layers([&](support::random_layers const& of) { law(of.loads, of.topo); });
  }

  template <class Layouts>
  [[nodiscard]] static std::vector<int> owners(Layouts const& layouts) {
    auto all = std::vector<int>{};
    for (auto const& layout : layouts)
      for (auto const chunk : fssdp::all_chunks(layout)) all.push_back(layout.owner(chunk).value());
    return all;
  }

  static void check_layouts(loads const& of, fssdp::topology const& topo) {
    auto layers = std::size_t{0};
    for (auto const& layout : Model::make()(of, topo)) {
      fssdp::check_layout(layout);
      REQUIRE(layout.experts() == static_cast<int>(of.front().size()));
      REQUIRE(layout.ranks() == topo.ranks());
      ++layers;
    }
    REQUIRE(layers == of.size());
  }

  static void check_shares(loads const& of, fssdp::topology const& topo) {
    auto const ranks = static_cast<std::size_t>(topo.ranks());
    auto owned = std::vector<std::size_t>(ranks);
    auto slices = std::size_t{1};
    for (auto const& layout : Model::make()(of, topo)) {
      slices = static_cast<std::size_t>(layout.slices());
      for (auto const rank : fssdp::first_n<fssdp::rank_id>(topo.ranks()))
        owned[rank.index()] += layout.owned(rank).size();
    }
    auto const all = of.size() * of.front().size() * slices;
    REQUIRE(std::ranges::min(owned) == all / ranks);
    REQUIRE(std::ranges::max(owned) == (all + ranks - 1) / ranks);
  }

  static void check_refusals() {
    auto const solve = Model::make();
    auto const topo = fssdp::topology{{.nodes = 2, .ranks = 5}};
    auto const refuses = [&](loads const& of, fssdp::topology const& on, auto const& named) {
      REQUIRE_THROWS_AS(solve(of, on), fssdp::argument_error);
      REQUIRE_THROWS_WITH(solve(of, on), named);
    };
    refuses({}, topo, mentions("0 layers"));
    refuses({{}, {}}, topo, mentions("0 experts"));
    refuses({{1, 2, 3}, {1, 2, 3}, {1, 2, 3, 4, 5, 6, 7}}, topo, mentions("7") && mentions("3"));
    refuses({{1, 2, 3}, {}}, topo, mentions("0") && mentions("3"));
    refuses({{1, 2, 3}}, fssdp::topology{}, mentions("0 ranks"));
  }
};

}  // namespace contract
