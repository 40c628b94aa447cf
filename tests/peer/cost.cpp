// SPDX-License-Identifier: Apache-2.0
/// What a gather and a reduction cost the host between devices of one process: counted.
#include <barrier>

#include "catch.hpp"
#include "fssdp/codec/coded_links.hpp"
#include "fssdp/codec/fp8_e4m3_codec.hpp"
#include "fssdp/collective/memory_required.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/plan/schedule.hpp"
#include "peer/devices.hpp"
#include "peer/everywhere_buffers.hpp"
#include "support/allocation_counter.hpp"

using fssdp::peer_communicator;
using peer_tests::everywhere_buffers;
using support::everywhere_plan;

namespace {

/// What all ranks together have done in the second of two equal calls.
struct hot_cost {
  long allocations = 0;
  int waits = 0;
  int looks_in_vain = 0;
  int allocations_on_streams = 0;
  std::size_t copied = 0;
  int launches = 0;
  int wrong = 0;
};

struct devices_used {
  fssdp::copied_by copies;
  int devices = 2;
};

/// @param enqueue(comm, buffers, options) what is measured
/// @param links   what is coded in it, if anything: none, or coded_links
template <class Enqueue, class... Links>
[[nodiscard]] hot_cost cost_of_second(everywhere_plan const& of, devices_used const& use_of,
                                      Enqueue enqueue, Links const&... links) {
  gpu_double::reset({.allocations = []() -> long& { return support::allocations; }});
  auto const ranks = of.plan.ranks();
  auto cost = hot_cost{};
  auto sum = std::atomic{0L};
  auto wrong = std::atomic{0};
  auto meets = std::barrier{ranks};
  peer_tests::on_devices(
      {.ranks = ranks, .copies = use_of.copies, .devices = use_of.devices},
      [&](peer_communicator& comm) {
        auto mine = everywhere_buffers{of, comm.rank()};
        auto const use = fssdp::memory_required<float>(of.plan, comm.rank(), of.elements, links...);
        auto const device = fssdp::cuda_memory{use.gather_scratch + use.reduce_scratch + 1};
        auto lists = fssdp::scratch_memory{};
        auto const options =
            fssdp::reduce_options{.scratch = &lists, .device_scratch = device.bytes()};
        mine.gather_and_reduce(comm, of.plan, options);
        enqueue(comm, mine, options);
        comm.synchronize();
        meets.arrive_and_wait();
        auto const before = hot_cost{.waits = gpu_double::host_waits(),
                                     .looks_in_vain = gpu_double::looks_in_vain(),
                                     .allocations_on_streams = gpu_double::async_allocations(),
                                     .copied = gpu_double::copied_bytes(),
                                     .launches = gpu_double::launches()};
        meets.arrive_and_wait();
        sum += support::allocations_in([&] { enqueue(comm, mine, options); });
        meets.arrive_and_wait();
        if (comm.rank() == fssdp::rank_id{0}) {
          cost.waits = gpu_double::host_waits() - before.waits;
          cost.looks_in_vain = gpu_double::looks_in_vain() - before.looks_in_vain;
          cost.copied = gpu_double::copied_bytes() - before.copied;
          cost.launches = gpu_double::launches() - before.launches;
          cost.allocations_on_streams =
              gpu_double::async_allocations() - before.allocations_on_streams;
        }
        meets.arrive_and_wait();
        comm.synchronize();
        auto const expected = static_cast<float>(ranks * (comm.rank().value() + 1));
        wrong += mine.gradients_are(expected) ? 0 : 1;
      });
  cost.allocations = sum;
  cost.wrong = wrong;
  return cost;
}

[[nodiscard]] everywhere_plan in_pieces(int ranks) {
  auto of = everywhere_plan{ranks};
  of.plan = schedule(of.plan, 48'000'000, {.piece_bytes = 12'000'000});
  return of;
}

}  // namespace

TEST_CASE("neither collective allocates or waits for a device once its shape is known") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  for (auto const copies : {fssdp::copied_by::engines, fssdp::copied_by::kernels})
    for (auto const& of : {everywhere_plan{4}, in_pieces(4)}) {
      CAPTURE(of.plan.rounds(), copies == fssdp::copied_by::engines);
      auto const cost = cost_of_second(of, {copies},
                                       [&](peer_communicator& comm, everywhere_buffers& mine,
                                           fssdp::reduce_options const& options) {
                                         mine.gather_and_reduce(comm, of.plan, options);
                                       });
      REQUIRE(cost.wrong == 0);
      REQUIRE(cost.allocations == 0);
      REQUIRE(cost.waits == 0);
      // every exchange of both collectives looks at earlier ones, and does not look again
      REQUIRE(cost.looks_in_vain <= 2 * of.plan.rounds() * of.plan.ranks());
      REQUIRE(cost.allocations_on_streams == 0);
    }
}

TEST_CASE("a gather copies each byte once, a reduction none") {
  auto const of = everywhere_plan{4};
  auto const bytes = std::size_t{4 * 3 * (7 + 11) * sizeof(float)};
  for (auto const copies : {fssdp::copied_by::engines, fssdp::copied_by::kernels}) {
    auto const gather =
        cost_of_second(of, {copies},
                       [&](peer_communicator& comm, everywhere_buffers& mine,
                           fssdp::reduce_options const& options) {
                         fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.all,
                                                  {.scratch = options.scratch});
                       });
    auto const own = std::size_t{4 * (7 + 11) * sizeof(float)};  // partials have slots for these
    REQUIRE(gather.copied == bytes + own);
    auto const reduce = cost_of_second(of, {copies},
                                       [&](peer_communicator& comm, everywhere_buffers& mine,
                                           fssdp::reduce_options const& options) {
                                         fssdp::sparse_reduce_scatter(comm, of.plan, mine.all,
                                                                      mine.gradients, options);
                                       });
    REQUIRE(reduce.copied == 0);
    REQUIRE(gather.wrong + reduce.wrong == 0);
  }
}

TEST_CASE("sums of a rank are one launch, those of ranks that share a device, too") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  auto const of = everywhere_plan{4};
  auto const launches = [&](int devices) {
    auto const cost = cost_of_second(of, {fssdp::copied_by::engines, devices},
                                     [&](peer_communicator& comm, everywhere_buffers& mine,
                                         fssdp::reduce_options const& options) {
                                       fssdp::sparse_reduce_scatter(comm, of.plan, mine.all,
                                                                    mine.gradients, options);
                                     });
    REQUIRE(cost.wrong == 0);
    return cost.launches;
  };
  REQUIRE(launches(2) == 4);
  REQUIRE(launches(1) == 1);
}

TEST_CASE(
    "neither collective allocates or waits where all links are coded, and launches are counted") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  auto const of = everywhere_plan{4};
  auto const links = fssdp::coded_links{fssdp::fp8_e4m3_codec{}, fssdp::link_class::all};
  auto const gather = [&](peer_communicator& comm, everywhere_buffers& mine,
                          fssdp::reduce_options const& options) {
    fssdp::sparse_all_gather(
        comm, of.plan, mine.shard, mine.all, links,
        {.scratch = options.scratch, .device_scratch = options.device_scratch});
  };
  auto const reduce = [&](peer_communicator& comm, everywhere_buffers& mine,
                          fssdp::reduce_options const& options) {
    fssdp::sparse_reduce_scatter(comm, of.plan, mine.all, mine.gradients, links, options);
  };
  auto const engines = fssdp::copied_by::engines;
  auto const cost_of_gather = cost_of_second(of, {engines}, gather, links);
  auto const cost_of_reduce = cost_of_second(of, {engines}, reduce, links);
  for (auto const& cost : {cost_of_gather, cost_of_reduce}) {
    REQUIRE(cost.wrong == 0);
    REQUIRE(cost.allocations == 0);
    REQUIRE(cost.waits == 0);
    REQUIRE(cost.allocations_on_streams == 0);
  }
  // each of 4 ranks encodes both tensors of its expert, decodes them, and what has come in, at once
  REQUIRE(cost_of_gather.launches == 4 * (2 + 1 + 1));
  // likewise: encodes the partials of the 3 others, and forms its sums at once
  REQUIRE(cost_of_reduce.launches == 4 * (2 * 3 + 1));
}

TEST_CASE("the allocation counter of a rank counts one") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  gpu_double::reset({.allocations = []() -> long& { return support::allocations; }});
  peer_tests::on_devices({.ranks = 1}, [](peer_communicator&) {});
  REQUIRE(support::allocations_in([] { (void)std::vector<int>(100).data(); }) == 1);
}
