// SPDX-License-Identifier: Apache-2.0
/// What every placement solver promises, law by law. A model passes with a short file of its own.
#pragma once

#include <cstdint>
#include <utility>

#include "catch.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/cyclic_layout.hpp"
#include "fssdp/solver/placement_solver.hpp"
#include "support/laws.hpp"
#include "support/scaled.hpp"

namespace contract {

/// Model::make(topology) gives a solver for the ranks of that topology, always the same one. Of a
/// solver that takes long, Model::instances says on how many instances the laws are tried.
template <class Model>
class placement_solver_contract {
  using solver = decltype(Model::make(fssdp::topology{}));
  using loads = fssdp::expert_loads;
  static_assert(fssdp::placement_solver<solver, fssdp::block_layout>);
  static_assert(fssdp::placement_solver<solver, fssdp::cyclic_layout>);
  static_assert(fssdp::placement_solver<solver, support::reversed_layout>, "a user's layout");

 public:
  /// All laws; a section each.
  static void check() {
    SECTION("the owner of an expert always holds it") {
      for_many_inputs([](solver const& solve, loads const& of, auto const& layout) {
        REQUIRE_NOTHROW(fssdp::check_contains(solve(of, layout), layout));
      });
    }
    SECTION("equal inputs give equal placements, whatever was asked before") {
      for_many_inputs([](solver const& solve, loads const& of, auto const& layout) {
        auto const first = solve(of, layout);
        auto const copy = solve;
        (void)solve(loads(of.size(), 1), layout);
        REQUIRE(solve(of, layout) == first);
        REQUIRE(copy(of, std::as_const(layout)) == first);
      });
    }
    SECTION("the scale of the loads changes nothing, up to the end of 64 bits") {
      for_many_inputs([](solver const& solve, loads const& of, auto const& layout) {
        auto const where = solve(of, layout);
        for (auto const factor : support::scales(of))
          REQUIRE(solve(support::scaled(of, factor), layout) == where);
      });
    }
    SECTION("no loads at all are loads like any") {
      for_many_inputs([](solver const& solve, loads const& of, auto const& layout) {
        auto const where = solve(loads(of.size(), 0), layout);
        fssdp::check_contains(where, layout);
        REQUIRE(where == solve(loads(of.size(), 1), layout));
      });
    }
    if constexpr (fssdp::renewing_solver<solver, fssdp::block_layout>) {
      SECTION("from whatever placement before, the owner of an expert always holds it") {
        for_many_inputs([](solver const& solve, loads const& of, auto const& layout) {
          auto const before = solve(loads(of.rbegin(), of.rend()), layout);
          auto const where = solve(of, layout, before);
          REQUIRE_NOTHROW(fssdp::check_contains(where, layout));
          REQUIRE(solve(of, layout, before) == where);
          auto const other = fssdp::placement{
              fssdp::block_layout{{.experts = layout.experts() + 1, .ranks = layout.ranks()}}};
          REQUIRE(solve(of, layout, other) == solve(of, layout));
        });
      }
    }
    SECTION("another number of loads than experts is refused, and both are named") {
      check_wrong_numbers(1);
      check_wrong_numbers(3);
    }
  }

 private:
  /// Tries a law on random loads, with layouts that the solver has and has not been written for,
  /// half of them sliced. A failure prints the seed.
  template <class Law>
  static void for_many_inputs(Law law) {
    support::for_random_instances(instances(), [&](support::random_instance const& of) {
      auto const solve = Model::make(of.topo);
      auto const experts = of.layout.experts();
      auto const ranks = of.layout.ranks();
      auto const slices = of.layout.slices();
      law(solve, of.loads, of.layout);
      law(solve, of.loads,
          fssdp::block_layout{{.experts = experts, .ranks = ranks, .slices = slices}});
      law(solve, of.loads,
          fssdp::cyclic_layout{{.experts = experts, .ranks = ranks, .slices = slices}});
    });
  }

  static constexpr int instances() {
    if constexpr (requires { Model::instances; })
      return Model::instances;
    else
      return support::law_instances;
  }

  static void check_wrong_numbers(int slices) {
    auto const solve = Model::make(fssdp::topology{{.nodes = 1, .ranks = 2}});
    auto const layout = fssdp::block_layout{{.experts = 17, .ranks = 2, .slices = slices}};
    for (auto const* const number : {"0", "16", "18", "51"}) {
      auto const wrong = loads(static_cast<std::size_t>(std::stoi(number)), 1);
      REQUIRE_THROWS_AS(solve(wrong, layout), fssdp::argument_error);
      REQUIRE_THROWS_WITH(solve(wrong, layout), mentions(number) && mentions("17"));
    }
  }
};

}  // namespace contract
