// SPDX-License-Identifier: Apache-2.0
/// A materializer beside a stream that computes: over NCCL it leaves the bits of threads.
#include "catch.hpp"
#include "nccl/devices.hpp"
#include "support/trained_on_devices.hpp"

TEST_CASE("a materializer over NCCL leaves the bits of threads") {
  support::check_training_on_devices(
      [](int ranks, auto const& work) { return nccl_tests::results_of({.ranks = ranks}, work); });
}
