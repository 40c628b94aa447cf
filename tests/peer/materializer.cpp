// SPDX-License-Identifier: Apache-2.0
/// A materializer beside a stream that computes: devices of one process leave the bits of threads.
#include "catch.hpp"
#include "peer/devices.hpp"
#include "support/trained_on_devices.hpp"

using fssdp::peer_communicator;

TEST_CASE("a materializer on devices of one process leaves the bits of threads") {
  for (auto const copies : {fssdp::copied_by::engines, fssdp::copied_by::kernels})
    support::check_training_on_devices([&](int ranks, auto const& work) {
      return peer_tests::results_of({.ranks = ranks, .copies = copies, .devices = 1}, work);
    });
}

TEST_CASE("a materializer on devices refuses pools in memory that they cannot reach") {
  gpu_double::reset();
  auto const refused = peer_tests::thrown_by({.ranks = 1}, [](peer_communicator& comm) {
    auto model = support::toy_model{{.ranks = 1}, comm.rank()};
    auto const compute = fssdp::make_cuda_stream();
    auto streamed = fssdp::on_side_stream(comm, compute.get());
    (void)support::make_layers(streamed, model, {.replica_slots = 1, .partial_slots = 1});
  });
  REQUIRE_THROWS_WITH(std::rethrow_exception(refused[0]), mentions("pools in memory of the host"));
}
