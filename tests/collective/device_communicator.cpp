// SPDX-License-Identifier: Apache-2.0
/// The collectives on a communicator whose memory is a device's, and that offers nothing but what they
/// ask for.
#include "catch.hpp"
#include "fssdp/collective/memory_required.hpp"
#include "fssdp/collective/warm_up.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/collective_bits.hpp"
#include "support/communicator_archetype.hpp"
#include "support/device_archetype.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/rank_buffers.hpp"

using fssdp::thread_communicator;
using support::random_instance;

static_assert(fssdp::device_communicator<support::on_a_device<thread_communicator>>);
static_assert(fssdp::coding_communicator<support::on_a_device<thread_communicator>>);
static_assert(!fssdp::device_communicator<thread_communicator>);

namespace {

constexpr auto on_few_ranks = support::size_limits{.ranks = 6, .nodes = 3, .experts = 16};

}  // namespace

TEST_CASE("a device gives the bits of the host, and what it allocates it frees") {
  support::for_random_instances(
      support::some_instances,
      [](random_instance const& of) {
        auto const ranks = of.plan.ranks();
        auto const on_host = support::on_all_ranks(
            ranks, [&](thread_communicator& comm) { return support::collective_bits(comm, of); });
        auto left = std::atomic{0};
        auto const on_device = support::on_all_ranks(ranks, [&](thread_communicator& comm) {
          auto device = support::on_a_device{comm};
          fssdp::warm_up(device, of.plan);
          auto const found = support::collective_bits(device, of);
          left += device.live();
          return found;
        });
        REQUIRE(on_host == on_device);
        REQUIRE(left == 0);
      },
      on_few_ranks);
}

TEST_CASE("with as much scratch as memory_required says, no device memory is allocated") {
  support::for_random_instances(
      support::some_instances,
      [](random_instance const& of) {
        auto allocations = std::atomic{0};
        auto const wrong = support::on_all_ranks(of.plan.ranks(), [&](thread_communicator& comm) {
          auto device = support::on_a_device{comm};
          auto mine = support::rank_buffers<fssdp::bf16, float>{of, comm.rank()};
          auto const use = fssdp::memory_required<float, fssdp::bf16, fssdp::bf16>(
              of.plan, comm.rank(), of.elements);
          auto data = fssdp::scratch_memory{};
          auto const bytes = std::max(use.gather_scratch, use.reduce_scratch);
          auto const scratch = data.reserve(bytes + 64).first(bytes);
          if (bytes != 0) {
            fssdp::sparse_all_gather(device, of.plan, mine.shard, mine.in_one_piece,
                                     {.device_scratch = scratch});
            fssdp::sparse_reduce_scatter(device, of.plan, mine.partials, mine.gradients,
                                         {.device_scratch = scratch});
          } else {
            fssdp::sparse_all_gather(device, of.plan, mine.shard, mine.in_one_piece);
            fssdp::sparse_reduce_scatter(device, of.plan, mine.partials, mine.gradients);
          }
          allocations += device.allocations();
          return mine.wrong_in_one_piece() + mine.wrong_gradients() + mine.wrong_inputs();
        });
        for (auto const& of_rank : wrong) REQUIRE(of_rank == 0);
        REQUIRE(allocations == 0);
      },
      on_few_ranks, 1'000'000);
}

TEST_CASE("a sum of more operands than a device takes is refused before anything is sent") {
  constexpr auto ranks = 3;
  // A plan for more ranks than there are threads is enough to be refused by.
  auto const many = fssdp::block_layout{{.experts = 1, .ranks = 242}};
  auto const plan = make_plan(many, fssdp::everywhere{}(many));
  auto const refused = support::on_all_ranks(ranks, [&](thread_communicator& comm) {
    auto device = support::on_a_device{comm};
    auto scratch = fssdp::scratch_memory{};
    auto partials = fssdp::make_partials<float>(plan, fssdp::rank_id{0}, 1);
    auto gradients = fssdp::make_shard<float>(many, fssdp::rank_id{0}, 1);
    auto const call = fssdp::detail::reduction_call{plan,
                                                    fssdp::rank_id{0},
                                                    fssdp::detail::tensor_list{partials},
                                                    fssdp::detail::tensor_list{gradients},
                                                    &fssdp::detail::known_sum<float, float>,
                                                    {.scratch = &scratch}};
    try {
      call(device);
    } catch (fssdp::argument_error const& error) {
      return std::string{error.what()};
    }
    return std::string{};
  });
  for (auto const& text : refused)
    REQUIRE_THAT(text, mentions("242 operands of a sum on a device"));
}
