// SPDX-License-Identifier: Apache-2.0
/// A materializer beside a stream that computes: devices of one process leave the bits of threads.
#include "catch.hpp"
#include "fssdp/codec/coded_links.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "peer/devices.hpp"
#include "support/hundreds_codec.hpp"
#include "support/trained_on_devices.hpp"

using fssdp::peer_communicator;

TEST_CASE("a materializer on devices of one process leaves the bits of threads") {
  for (auto const copies : {fssdp::copied_by::engines, fssdp::copied_by::kernels})
    support::check_training_on_devices([&](int ranks, auto const& work) {
      return peer_tests::results_of({.ranks = ranks, .copies = copies, .devices = 1}, work);
    });
}

TEST_CASE(
    "a materializer on devices of one process leaves the bits of threads where links are coded") {
  support::check_training_on_devices(
      [&](int ranks, auto const& work) {
        return peer_tests::results_of({.ranks = ranks, .devices = 1}, work);
      },
      fssdp::coded_links{fssdp::int8_codec{}, fssdp::link_class::all});
}

TEST_CASE("a materializer on devices refuses a codec that they have no kernels for") {
  gpu_double::reset();
  auto const refused = peer_tests::thrown_by({.ranks = 1}, [](peer_communicator& comm) {
    auto pinned = fssdp::cuda_pinned_memory{};
    auto model = support::toy_model{{.ranks = 1}, comm.rank()};
    auto const compute = fssdp::make_cuda_stream();
    auto streamed = fssdp::on_side_stream(comm, compute.get());
    (void)support::make_layers(
        streamed, model, {.replica_slots = 1, .partial_slots = 1, .memory = &pinned}, {}, {},
        fssdp::coded_links{support::hundreds_codec{}, fssdp::link_class::all});
  });
  REQUIRE_THROWS_WITH(std::rethrow_exception(refused[0]), mentions("that has device kernels"));
}

TEST_CASE("a materializer on devices refuses pools in memory that they cannot reach") {
  gpu_double::reset();
  auto const refused = peer_tests::thrown_by({.ranks = 1}, [](peer_communicator& comm) {
    auto model = support::toy_model{{.ranks = 1}, comm.rank()};
    auto const compute = fssdp::make_cuda_stream();
    auto streamed = fssdp::on_side_stream(comm, compute.get());
    (void)support::make_layers(streamed, model, {.replica_slots = 1, .partial_slots = 1});
  });
  REQUIRE_THROWS_WITH(std::rethrow_exception(refused[0]), mentions("pools in host memory"));
}
