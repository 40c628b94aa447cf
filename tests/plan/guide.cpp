// SPDX-License-Identifier: Apache-2.0
/// The plan across nodes that the guide shows.
#include <cstddef>

#include "catch.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/plan/lower_bound.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/plan/simulate.hpp"
#include "fssdp/plan/verify.hpp"
#include "fssdp/solver/everywhere.hpp"

TEST_CASE(
    "the plan across nodes of the guide is right, and between the bound and what it is made of") {
  auto const layout = fssdp::block_layout{{.experts = 64, .ranks = 32}};
  auto const where = fssdp::everywhere{}(fssdp::expert_loads(64, 1), layout);
  auto const expert_bytes = std::size_t{48'000'000};
#include "guides/include/fssdp/plan/README.md/1.inc"
  fssdp::verify(fast);
  CHECK(seconds < fssdp::simulate(plan, expert_bytes).seconds);
  CHECK(seconds >= least);
}
