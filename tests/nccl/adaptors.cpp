// SPDX-License-Identifier: Apache-2.0
/// Adaptors around communicators that are bound to a device's stream.
#include <cstdint>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_gather.hpp"
#include "fssdp/collective/warm_up.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/cuda/cuda_side_stream.hpp"
#include "fssdp/comm/faulty.hpp"
#include "nccl/everywhere_plan.hpp"
#include "support/communicator_extras.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::nccl_communicator;

namespace {

constexpr auto ranks = 3;

/// What a rank has received, and whether its gradients are right.
struct report {
  std::uint64_t received = 0;
  std::uint64_t received_below = 0;  // as an adaptor nearer to NCCL says
  bool right = false;
};

/// A gather and a reduction move every expert, 18 floats, to all others, and back.
[[nodiscard]] std::uint64_t bytes_of_both(nccl_tests::everywhere_plan const& of) {
  auto const expert = (of.elements[0] + of.elements[1]) * sizeof(float);
  return 2 * expert * static_cast<std::uint64_t>(of.ranks * (of.ranks - 1));
}

void require_all_counted(nccl_tests::everywhere_plan const& of,
                         std::vector<report> const& reports) {
  auto received = std::uint64_t{0};
  auto below = std::uint64_t{0};
  for (auto const& rank : reports) {
    REQUIRE(rank.right);
    received += rank.received;
    below += rank.received_below;
  }
  REQUIRE(received == bytes_of_both(of));
  REQUIRE(below == bytes_of_both(of));
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

}  // namespace

TEST_CASE("messages over NCCL can be counted") {
  gpu_double::reset();
  auto const of = nccl_tests::everywhere_plan{ranks};
  auto const reports = nccl_tests::results_of({.ranks = ranks}, [&](nccl_communicator& comm) {
    auto counted = fssdp::counting{comm};
    auto twice = fssdp::counting<decltype(counted)>{counted};
    auto mine = nccl_tests::everywhere_buffers{of, twice};
    fssdp::warm_up(twice, of.plan);
    twice.reset();
    counted.reset();
    mine.gather_and_reduce(twice, of.plan);
    fssdp::synchronize(twice);
    return report{twice.counts().bytes_received, counted.counts().bytes_received,
                  mine.gradients_are(static_cast<float>(ranks * (comm.rank().value() + 1)))};
  });
  require_all_counted(of, reports);
}

TEST_CASE(
    "a communicator on a side stream can be counted, and a counted one put on a side stream") {
  gpu_double::reset();
  auto const of = nccl_tests::everywhere_plan{ranks};
  auto const reports = nccl_tests::results_of({.ranks = ranks}, [&](nccl_communicator& comm) {
    auto const compute = fssdp::make_cuda_stream(comm.rank());
    auto below = fssdp::counting{comm};
    auto streamed = fssdp::on_side_stream(below, compute.get());
    auto counted = fssdp::counting{streamed};
    static_assert(fssdp::side_stream_communicator<decltype(counted)>);
    auto mine = nccl_tests::everywhere_buffers{of, counted};
    mine.gather_and_reduce(counted, of.plan);
    auto all = std::vector<int>(ranks);
    fssdp::all_gather(counted, std::vector{comm.rank().value()}, all);
    fssdp::synchronize(counted);
    return report{counted.counts().bytes_received, below.counts().bytes_received,
                  all == std::vector{0, 1, 2} && counted.position() == 2 &&
                      mine.gradients_are(static_cast<float>(ranks * (comm.rank().value() + 1)))};
  });
  require_all_counted(of, reports);
}

TEST_CASE("a fault around NCCL leaves the call, not the stream") {
  gpu_double::reset();
  auto const thrown = nccl_tests::thrown_by({.ranks = 2}, [](nccl_communicator& comm) {
    auto frail = fssdp::faulty{comm, {.exchange = 2}};
    for (auto turn = 0; turn < 2; ++turn)
      fssdp::submit(frail, [](auto& streamed) { streamed.exchange([](auto&) {}); });
  });
  for (auto const& of_rank : thrown) REQUIRE(support::is<fssdp::injected_fault>(of_rank));
}

TEST_CASE("the README says which extras communicators have over NCCL") {
  gpu_double::reset();
  auto of_communicator = std::vector<std::string>{};
  auto of_ref = std::vector<std::string>{};
  auto of_lane = std::vector<std::string>{};
  nccl_tests::on_devices({.ranks = 1}, [&](nccl_communicator& comm) {
    auto& ref = static_cast<fssdp::nccl_ref&>(comm);
    auto streamed = fssdp::on_side_stream(comm, comm.stream());
    of_communicator = support::extras_of(comm);
    of_ref = support::extras_of(ref);
    of_lane = support::extras_of(streamed);
  });
  REQUIRE(support::extras_in_readme("nccl_communicator") == of_communicator);
  REQUIRE(support::extras_in_readme("nccl_ref") == of_ref);
  REQUIRE(support::extras_in_readme("cuda_side_stream of NCCL") == of_lane);
}
