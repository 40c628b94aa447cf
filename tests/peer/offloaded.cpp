// SPDX-License-Identifier: Apache-2.0
/// What owners have may lie in pinned memory of the host: devices of one process leave the same
/// bits.
#include "catch.hpp"
#include "peer/devices.hpp"
#include "support/pinned_owners.hpp"

TEST_CASE(
    "gathers from pinned memory and reductions into it leave the bits of devices of one process") {
  support::check_pinned_owners(
      [](int ranks, auto const& work) { return peer_tests::results_of({.ranks = ranks}, work); });
}
