// SPDX-License-Identifier: Apache-2.0
/// A device without memory: an error of its own, which leaves the communicator as it was.
#include "catch.hpp"
#include "peer/devices.hpp"
#include "support/full_device.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::peer_communicator;

namespace {

constexpr auto device_bytes = std::size_t{1} << 20U;

}  // namespace

TEST_CASE("a request for more memory than a device has is an error that names it") {
  gpu_double::reset({.memory = 1000});
  auto refused = std::optional<fssdp::out_of_memory>{};
  try {
    auto const arena = fssdp::cuda_memory{600, fssdp::rank_id{2}};
    auto const too_much = fssdp::cuda_memory{401, fssdp::rank_id{3}};
  } catch (fssdp::out_of_memory const& error) {
    refused = error;
  }
  REQUIRE(refused.has_value());
  REQUIRE(refused->rank() == fssdp::rank_id{3});
  REQUIRE(refused->device() == 0);
  REQUIRE(refused->bytes() == 401);
  REQUIRE_THAT(refused->what(),
               mentions("rank 3 wants 401 bytes of device 0 for an arena (cuda_memory); 400 of "
                        "1000 bytes are left"));
  REQUIRE(cudaGetLastError() == cudaSuccess);  // the error does not appear in a later call
}

TEST_CASE("a rank whose device is full throws before it sends, and can call again") {
  gpu_double::reset({.memory = device_bytes});
  auto const of = support::relaying_plan{};
  auto const reports = peer_tests::results_of({.ranks = of.ranks}, [&](peer_communicator& comm) {
    return support::use_full_device(comm, of, true);
  });
  for (auto const& report : reports) REQUIRE(report.is_right);
  REQUIRE(support::is<fssdp::out_of_memory>(reports[1].thrown));
  REQUIRE_FALSE(reports[1].has_failed);
  REQUIRE_THAT(support::text(reports[1].thrown), mentions("for scratch of a collective"));
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

TEST_CASE("a rank that leaves as its device is full is named to the others") {
  gpu_double::reset({.memory = device_bytes});
  auto const of = support::relaying_plan{};
  auto const thrown = peer_tests::thrown_by({.ranks = of.ranks}, [&](peer_communicator& comm) {
    (void)support::use_full_device(comm, of, false);
  });
  for (std::size_t rank = 0; rank < thrown.size(); ++rank) {
    CAPTURE(rank, support::text(thrown[rank]));
    if (rank == 1) {
      REQUIRE(support::is<fssdp::out_of_memory>(thrown[rank]));
    } else {
      REQUIRE(support::is<fssdp::peer_failed>(thrown[rank]));
      REQUIRE(support::failed_rank(thrown[rank]) == 1);
      REQUIRE_THAT(support::text(thrown[rank]), mentions("rank 1 wants"));
    }
  }
}
