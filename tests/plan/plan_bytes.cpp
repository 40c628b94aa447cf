// SPDX-License-Identifier: Apache-2.0
/// A plan that has been sent as bytes is the plan.
#include "fssdp/plan/plan_bytes.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/rank_ordered.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/plan/verify.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"

using support::random_instance;
using bytes = std::vector<std::byte>;

namespace {

/// A plan of 3 experts on 2 nodes of 2 ranks, and what the other side knows of it.
struct known_plan {
  fssdp::topology topo{{.nodes = 2, .ranks = 4}};
  fssdp::table_layout layout = fssdp::as_table(fssdp::block_layout{{.experts = 3, .ranks = 4}});
  fssdp::transfer_plan plan = fssdp::make_plan(layout, fssdp::everywhere{}(layout), topo);
  bytes sent = fssdp::plan_to_bytes(plan);

  [[nodiscard]] fssdp::transfer_plan read(std::span<std::byte const> from) const {
    return fssdp::plan_from_bytes(from, layout, topo);
  }
  [[nodiscard]] std::string refusal_of(std::span<std::byte const> from) const {
    try {
      (void)read(from);
    } catch (fssdp::argument_error const& error) {
      return error.what();
    }
    return {};
  }
};

}  // namespace

TEST_CASE("a plan from its bytes equals it, and so does that of its reductions") {
  support::for_random_instances([](random_instance const& of) {
    auto const layout = fssdp::as_table(of.layout);
    auto const plan = fssdp::transfer_plan{layout,
                                           of.where,
                                           {of.plan.transfers().begin(), of.plan.transfers().end()},
                                           of.plan.topology(),
                                           of.plan.pieces()};
    for (auto const& sent : {plan, plan.reduced_by(fssdp::rank_ordered(plan))}) {
      auto const again =
          fssdp::plan_from_bytes(fssdp::plan_to_bytes(sent), layout, sent.topology());
      REQUIRE(again == sent);
      REQUIRE(again.hash_value() == sent.hash_value());
      REQUIRE(again.reduction() == sent.reduction());
      REQUIRE(again.topology() == sent.topology());
      fssdp::verify(again);
    }
  });
}

TEST_CASE("bytes that are too short or too long are not a plan") {
  auto const known = known_plan{};
  REQUIRE(known.read(known.sent) == known.plan);
  for (std::size_t count = 0; count < known.sent.size(); ++count) {
    CAPTURE(count);
    REQUIRE_THROWS_AS(known.read(std::span{known.sent}.first(count)), fssdp::argument_error);
  }
  auto longer = known.sent;
  longer.push_back(std::byte{0});
  CHECK(known.refusal_of(longer) ==
        "plan_from_bytes: bytes are left after the plan; expected none");
}

TEST_CASE("bytes that were changed are refused, or are another plan with another hash") {
  auto const known = known_plan{};
  auto draw = support::dice{7};
  auto refused = 0;
  constexpr auto tries = 2000;
  for (int i = 0; i < tries; ++i) {
    auto damaged = known.sent;
    auto& byte =
        damaged[static_cast<std::size_t>(draw.between(0, static_cast<int>(damaged.size()) - 1))];
    byte ^= static_cast<std::byte>(1 << draw.between(0, 7));
    try {
      (void)known.read(damaged);
    } catch (fssdp::argument_error const&) {
      ++refused;
    }
  }
  CHECK(refused == tries);
}

TEST_CASE("the bytes of a plan of another layout, or of another kind of machine, are refused") {
  auto const known = known_plan{};
  auto const others =
      fssdp::table_layout{{.ranks = 4}, {fssdp::rank_id{3}, fssdp::rank_id{1}, fssdp::rank_id{2}}};
  CHECK_THROWS_AS(fssdp::plan_from_bytes(known.sent, others, known.topo), fssdp::argument_error);
  auto swapped = known.sent;
  std::reverse(swapped.begin(), swapped.begin() + 4);
  CHECK(known.refusal_of(swapped) ==
        "plan_from_bytes: the bytes begin with 666c7002; expected 2706c66, a plan of this version "
        "from a machine of this byte order");
}
