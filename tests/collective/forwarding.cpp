// SPDX-License-Identifier: Apache-2.0
/// Whether pieces are passed on as they come in, lent round by round, or copied round by round: the
/// bits are the same.
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/collective_bits.hpp"
#include "support/communicator_archetype.hpp"
#include "support/differences.hpp"
#include "support/laws.hpp"
#include "support/mailbox_communicator.hpp"
#include "support/on_all_ranks.hpp"
#include "support/over_wires.hpp"
#include "support/rank_buffers.hpp"
#include "support/scheduled_plan.hpp"

using fssdp::thread_communicator;
using support::random_instance;

static_assert(!fssdp::forwarding_communicator<support::lending_only<thread_communicator>>);
static_assert(fssdp::lending_communicator<support::lending_only<thread_communicator>>);
static_assert(!fssdp::lending_communicator<support::mailbox_communicator>);

namespace {

constexpr auto up_to_eight_ranks = support::size_limits{.ranks = 8, .nodes = 4, .experts = 16};

}  // namespace

TEST_CASE("forwarded, lent or copied: the same bits, and the same bytes in no more messages") {
  auto passed_on = 0;
  for (std::uint64_t seed = 1; seed <= support::law_instances / 20; ++seed) {
    CAPTURE(seed);
    auto const of = support::relayed_instance(seed, up_to_eight_ranks);
    passed_on += of.plan.rounds() > 1 ? 1 : 0;
    auto world = fssdp::thread_world{of.plan.ranks()};
    support::same_over_wires(world, [&](auto& comm) { return support::collective_bits(comm, of); });
  }
  REQUIRE(passed_on > support::law_instances / 20 / 4);
}

TEST_CASE("forwarding gives the values of a loop over the placement, on slow ports, too") {
  for (std::uint64_t seed = 1; seed <= support::law_instances / 20; ++seed) {
    CAPTURE(seed);
    auto const of = support::relayed_instance(seed, up_to_eight_ranks);
    auto world = fssdp::thread_world{
        {.ranks = of.plan.ranks(), .ports = seed % 2 == 0 ? of.topo : fssdp::topology{}}};
    auto const wrong = support::on_all_ranks(world, [&](thread_communicator& comm) {
      auto mine = support::rank_buffers<float>{of, comm.rank()};
      fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.replicas);
      fssdp::sparse_reduce_scatter(comm, of.plan, mine.partials, mine.gradients);
      return mine.wrong_replicas() + mine.wrong_gradients() + mine.wrong_inputs();
    });
    REQUIRE(support::total(wrong) == 0);
  }
}

TEST_CASE("collectives run over mailboxes with no room, little room and any room") {
  for (std::uint64_t seed = 1; seed <= support::law_instances / 20; ++seed) {
    auto const slots = std::vector<std::size_t>{0, 1, std::size_t(-1)}[seed % 3];
    CAPTURE(seed, slots);
    auto const of = seed % 2 == 0 ? support::relayed_instance(seed, up_to_eight_ranks)
                                  : random_instance{seed, up_to_eight_ranks};
    auto post_office = support::mailboxes{of.plan.ranks(), slots};
    auto const wrong = support::on_all_ranks(of.plan.ranks(), [&](thread_communicator& thread) {
      auto comm = support::mailbox_communicator{post_office, thread.rank(), seed};
      auto mine = support::rank_buffers<float>{of, comm.rank()};
      fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.replicas);
      fssdp::sparse_reduce_scatter(comm, of.plan, mine.partials, mine.gradients);
      fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.in_one_piece);
      return mine.wrong_replicas() + mine.wrong_gradients() + mine.wrong_inputs() +
             mine.wrong_in_one_piece();
    });
    REQUIRE(support::total(wrong) == 0);
  }
}
