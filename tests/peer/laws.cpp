// SPDX-License-Identifier: Apache-2.0
/// The law <G x, y> = <x, G^T y> between devices of one process, and the bits of threads.
#include "support/laws_on_devices.hpp"

#include "peer/devices.hpp"

TEST_CASE("<G x, y> = <x, G^T y>, exactly, between devices of one process") {
  support::check_transpose_on_devices(
      [](int ranks, auto const& work) { return peer_tests::results_of({.ranks = ranks}, work); });
}

TEST_CASE(
    "<G x, y> = <x, G^T y>, exactly, between devices of one process, in whatever dtype experts "
    "are") {
  support::check_transpose_of_dtypes_on_devices(
      [](int ranks, auto const& work) { return peer_tests::results_of({.ranks = ranks}, work); });
}

TEST_CASE(
    "devices of one process give the bits that threads give, by any schedule and in rank order") {
  for (auto const copies : {fssdp::copied_by::engines, fssdp::copied_by::kernels})
    support::check_bits_on_devices([&](int ranks, auto const& work) {
      return peer_tests::results_of({.ranks = ranks, .copies = copies}, work);
    });
}
