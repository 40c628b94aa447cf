// SPDX-License-Identifier: Apache-2.0
/// The law <G x, y> = <x, G^T y> over NCCL, and the bits of threads.
#include "support/laws_on_devices.hpp"

#include "nccl/devices.hpp"

TEST_CASE("<G x, y> = <x, G^T y>, exactly, on devices") {
  support::check_transpose_on_devices(
      [](int ranks, auto const& work) { return nccl_tests::results_of({.ranks = ranks}, work); });
}

TEST_CASE("<G x, y> = <x, G^T y>, exactly, on devices, in whatever dtype experts are") {
  support::check_transpose_of_dtypes_on_devices(
      [](int ranks, auto const& work) { return nccl_tests::results_of({.ranks = ranks}, work); });
}

TEST_CASE("devices give the bits that threads give, by any schedule and in rank order") {
  support::check_bits_on_devices(
      [](int ranks, auto const& work) { return nccl_tests::results_of({.ranks = ranks}, work); });
}
