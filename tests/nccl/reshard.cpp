// SPDX-License-Identifier: Apache-2.0
/// Owners change over NCCL: in memory of devices, in the order of their streams.
#include "catch.hpp"
#include "nccl/devices.hpp"
#include "support/laws.hpp"
#include "support/moving_buffers.hpp"

TEST_CASE("every chunk arrives in its new slot over NCCL, and comes back") {
  constexpr auto most_ranks = 6;
  gpu_double::reset();
  auto done = std::size_t{0};
  for (auto seed = std::uint64_t{1}; seed <= support::law_instances / 40; ++seed) {
    auto const of = support::random_layouts{seed};
    if (of.from.ranks() > most_ranks) continue;
    CAPTURE(seed);
    auto const wrong = nccl_tests::results_of({.ranks = of.from.ranks()}, [&](auto& comm) {
      return support::wrong_after_reshard(comm, of);
    });
    REQUIRE(support::total(wrong) == 0);
    ++done;
  }
  REQUIRE(done > support::law_instances / 100);
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}
