// SPDX-License-Identifier: Apache-2.0
/// The concept of a solver, and the two ends of the dial.
#include "fssdp/solver/placement_solver.hpp"

#include "catch.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "fssdp/solver/owners_only.hpp"
#include "support/laws.hpp"

using fssdp::placement;

namespace {

using load_span = std::span<std::uint64_t const>;

struct minimal_solver {
  placement operator()(load_span, fssdp::block_layout const& layout) const {
    return placement{layout};
  }
};
struct solver_that_changes {
  placement operator()(load_span, fssdp::block_layout const& layout) { return placement{layout}; }
};
struct solver_without_placement {
  bool operator()(load_span, fssdp::block_layout const&) const { return true; }
};
struct solver_without_loads {
  placement operator()(fssdp::block_layout const& layout) const { return placement{layout}; }
};

static_assert(fssdp::placement_solver<minimal_solver>, "the twin of the others");
static_assert(!fssdp::placement_solver<solver_that_changes>);
static_assert(!fssdp::placement_solver<solver_without_placement>);
static_assert(!fssdp::placement_solver<solver_without_loads>);
static_assert(fssdp::placement_solver<fssdp::owners_only, support::reversed_layout>);
static_assert(fssdp::placement_solver<fssdp::everywhere, support::reversed_layout>);
static_assert(fssdp::placement_solver<fssdp::sparse_materialization, support::reversed_layout>);

}  // namespace

TEST_CASE("owners_only replicates nothing, everywhere everything") {
  support::for_random_instances([](support::random_instance const& of) {
    auto const everywhere = fssdp::everywhere{}(of.loads, of.layout);
    auto full = true;
    for (auto const expert : fssdp::first_n<fssdp::expert_id>(of.layout.experts()))
      full = full && static_cast<int>(everywhere.holders(expert).size()) == of.layout.ranks();
    REQUIRE(full);
    REQUIRE(everywhere == fssdp::everywhere{}(of.layout));
    REQUIRE(fssdp::owners_only{}(of.loads, of.layout) == placement{of.layout});
  });
}

TEMPLATE_TEST_CASE("loads of another number of experts are refused", "", fssdp::owners_only,
                   fssdp::everywhere, fssdp::sparse_materialization) {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto const three = fssdp::expert_loads(3);
  REQUIRE_THROWS_AS(TestType{}(three, layout), fssdp::argument_error);
  REQUIRE_THROWS_WITH(TestType{}(three, layout), mentions("3 experts") && mentions("expected 4"));
}
