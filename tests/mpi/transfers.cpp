// SPDX-License-Identifier: Apache-2.0
/// Transfers between distributions that lie in the same memory, between processes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/transfer_between.hpp"
#include "fssdp/comm/mpi.hpp"
#include "mpi/processes.hpp"
#include "support/communicator_archetype.hpp"
#include "support/dice.hpp"
#include "support/random_distribution.hpp"
#include "support/small_integers.hpp"

using fssdp::distribution;
using mpi_tests::processes;

namespace {

/// How many elements are wrong on a rank after a transfer within one block of memory.
template <class Comm>
[[nodiscard]] int wrong_in_block(Comm& comm, fssdp::redistribution const& plan) {
  auto const elements = plan.elements()[0];
  auto const room = [&](distribution const& of) {
    return of.slots(comm.rank()).size() * fssdp::slice_elements(elements, of.slices());
  };
  auto block = std::vector<float>(std::max(room(plan.from()), room(plan.to())));
  auto const view = [&](distribution const& of) {
    return fssdp::expert_tensor<float>{.data = block.data(),
                                       .slots = of.slots(comm.rank()).size(),
                                       .elements = fssdp::slice_elements(elements, of.slices())};
  };
  auto const for_each = [&](distribution const& of, auto visit) {
    auto const tensor = view(of);
    for (std::size_t slot = 0; auto const chunk : of.slots(comm.rank())) {
      auto const part = fssdp::slice_extent{elements, chunk.slice, of.slices()};
      for (std::size_t i = 0; i < part.elements; ++i)
        visit(tensor[slot][i],
              static_cast<float>(support::small_integer({chunk.expert.index(), part.first + i})));
      ++slot;
    }
  };
  for_each(plan.from(), [](float& x, float value) { x = value; });
  transfer_between(comm, plan, view(plan.from()), view(plan.to()));
  auto wrong = 0;
  for_each(plan.to(), [&](float const& x, float value) { wrong += x == value ? 0 : 1; });
  return wrong;
}

}  // namespace

TEST_CASE("a transfer within one block of memory goes between processes, too") {
  auto const ranks = processes().size();
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    auto draw = support::dice{seed};
    auto const experts = draw.between(1, 3 * ranks);
    auto const from = support::random_distribution(draw, experts, ranks, true);
    auto const to = support::random_distribution(draw, experts, ranks, false);
    auto const elements = static_cast<std::size_t>(draw.chance(30) ? 20'000 : 30);
    auto const plan =
        fssdp::redistribution{from, to, std::vector{elements}, {}, {.in_place = draw.chance(70)}};
    CAPTURE(seed);
    auto const wrong = mpi_tests::sum_over(ranks, {}, [&](fssdp::mpi_communicator& comm) {
      auto by_rounds = support::exchange_only{comm};
      return wrong_in_block(comm, plan) + wrong_in_block(by_rounds, plan);
    });
    REQUIRE(wrong == 0);
  }
}
