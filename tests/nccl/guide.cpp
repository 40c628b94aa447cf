// SPDX-License-Identifier: Apache-2.0
/// What the README of include/fssdp/comm shows of communicators that go on without lost ranks.
#include <string>
#include <vector>

#include "catch.hpp"
#include "nccl/devices.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::rank_id;

TEST_CASE("ranks go on without a lost one as in the guide") {
  gpu_double::reset();
  auto id = ncclUniqueId{};
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  auto const ranks = 4;
  auto sizes = std::vector<int>(4);
  auto const thrown = nccl_tests::thrown_by({.ranks = ranks}, [&](fssdp::nccl_communicator& world) {
    auto const rank = world.rank();
    auto* const stream = world.stream();
    auto const lost = std::vector{rank_id{3}};
    auto const step = [&](fssdp::nccl_communicator const& comm) {
      if (comm.rank() != rank_id{3}) throw fssdp::transport_error{rank_id{3}, "it is lost"};
    };
    auto const go_on = [&](fssdp::nccl_communicator const& left) {
      sizes[rank.index()] = left.size();
    };
#include "guides/include/fssdp/comm/README.md/4.inc"
    comm.close();
  });
  for (auto const& of_rank : thrown) {
    CAPTURE(support::text(of_rank));
    REQUIRE(of_rank == nullptr);
  }
  REQUIRE(sizes == std::vector{3, 3, 3, 0});
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}
