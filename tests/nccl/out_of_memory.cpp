// SPDX-License-Identifier: Apache-2.0
/// A device without memory, over NCCL: an error of its own, which leaves the communicator as it was.
#include "catch.hpp"
#include "nccl/devices.hpp"
#include "support/full_device.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::nccl_communicator;

namespace {

constexpr auto bytes_of_device = std::size_t{1} << 20U;

}  // namespace

TEST_CASE("a rank whose device is full throws before it sends over NCCL, and can call again") {
  gpu_double::reset({.memory = bytes_of_device});
  auto const of = support::relaying_plan{};
  auto const reports = nccl_tests::results_of({.ranks = of.ranks}, [&](nccl_communicator& comm) {
    return support::use_full_device(comm, of, true);
  });
  for (auto const& report : reports) REQUIRE(report.is_right);
  REQUIRE(support::is<fssdp::out_of_memory>(reports[1].thrown));
  REQUIRE_FALSE(reports[1].has_failed);
  REQUIRE_THAT(support::text(reports[1].thrown), mentions("for scratch of a collective"));
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

TEST_CASE("ranks over NCCL wait until the deadline for one that left because its device is full") {
  gpu_double::reset({.memory = bytes_of_device});
  auto const of = support::relaying_plan{};
  auto const thrown = nccl_tests::thrown_by(
      {.ranks = of.ranks, .deadline = std::chrono::milliseconds{500}},
      [&](nccl_communicator& comm) { (void)support::use_full_device(comm, of, false); });
  for (std::size_t rank = 0; rank < thrown.size(); ++rank) {
    CAPTURE(rank, support::text(thrown[rank]));
    if (rank == 1)
      REQUIRE(support::is<fssdp::out_of_memory>(thrown[rank]));
    else
      REQUIRE(support::is<fssdp::transport_error>(thrown[rank]));
  }
}

TEST_CASE("NCCL arenas and communicators report the same out_of_memory error") {
  gpu_double::reset({.memory = 10'000});
  auto texts = std::vector<std::string>{};
  auto const refused_by = [&](auto make) {
    try {
      make();
    } catch (fssdp::out_of_memory const& error) {
      texts.emplace_back(error.what());
    }
  };
  refused_by([] { (void)fssdp::nccl_memory{20'000, fssdp::rank_id{5}}; });
  REQUIRE(texts.size() == 1);
  REQUIRE_THAT(texts[0],
               mentions("rank 5 wants 20000 bytes of device 0 for an arena (nccl_memory); "
                        "10000 of 10000 bytes are left"));
  auto const thrown = nccl_tests::thrown_by({.ranks = 1}, [&](nccl_communicator& comm) {
    auto const full = fssdp::cuda_memory{1'000};
    (void)comm.duplicate();
  });
  REQUIRE(support::is<fssdp::out_of_memory>(thrown[0]));
  REQUIRE_THAT(support::text(thrown[0]), mentions("for the rows of a nccl_ref"));
}
