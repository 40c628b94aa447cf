// SPDX-License-Identifier: Apache-2.0
/// Coded links between devices of one process: the bits of threads.
#include "support/coded_laws_on_devices.hpp"

#include "peer/devices.hpp"

TEST_CASE("coded collectives between devices of one process give the bits that threads give") {
  support::check_coded_bits_on_devices(
      [](int ranks, auto const& work) { return peer_tests::results_of({.ranks = ranks}, work); });
}

TEST_CASE(
    "coded reductions between devices of one process leave the residuals that threads leave") {
  support::check_feedback_on_devices(
      [](int ranks, auto const& work) { return peer_tests::results_of({.ranks = ranks}, work); });
}
