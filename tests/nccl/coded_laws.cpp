// SPDX-License-Identifier: Apache-2.0
/// Coded links over NCCL: the bits of threads.
#include "support/coded_laws_on_devices.hpp"

#include "nccl/devices.hpp"

TEST_CASE("coded collectives over NCCL give the bits that threads give") {
  support::check_coded_bits_on_devices(
      [](int ranks, auto const& work) { return nccl_tests::results_of({.ranks = ranks}, work); });
}

TEST_CASE("coded reductions over NCCL leave the residuals that threads leave") {
  support::check_feedback_on_devices(
      [](int ranks, auto const& work) { return nccl_tests::results_of({.ranks = ranks}, work); });
}
