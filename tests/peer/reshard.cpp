// SPDX-License-Identifier: Apache-2.0
/// Owners change on devices of one process: in their memory, in the order of their streams.
#include "catch.hpp"
#include "peer/devices.hpp"
#include "support/laws.hpp"
#include "support/moving_buffers.hpp"

TEST_CASE("every chunk arrives in its new slot on devices of one process, and comes back") {
  gpu_double::reset();
  for (auto seed = std::uint64_t{1}; seed <= support::law_instances / 40; ++seed) {
    CAPTURE(seed);
    auto const of = support::random_layouts{seed};
    auto const wrong = peer_tests::results_of({.ranks = of.from.ranks()}, [&](auto& comm) {
      return support::wrong_after_reshard(comm, of);
    });
    REQUIRE(support::total(wrong) == 0);
  }
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}
