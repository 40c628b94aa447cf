// SPDX-License-Identifier: Apache-2.0
/// Coded collectives over every wire: passed on as pieces come in, lent, copied, queued, over
/// mailboxes. The bits are the same, and so are the bytes that are sent.
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/fp8_e5m2_codec.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "support/coded_bits.hpp"
#include "support/coded_instance.hpp"
#include "support/communicator_archetype.hpp"
#include "support/float_data.hpp"
#include "support/laws.hpp"
#include "support/mailbox_communicator.hpp"
#include "support/on_all_ranks.hpp"
#include "support/over_wires.hpp"

using fssdp::coded_links;
using fssdp::thread_communicator;
using support::coded_instance;

TEST_CASE(
    "coded: forwarded, lent, copied or queued, the same bits, and the same bytes in no more "
    "messages") {
  auto passed_on = 0;
  support::for_coded_instances(support::some_instances, [&](coded_instance const& of) {
    passed_on += of.plan.rounds() > 1 ? 1 : 0;
    auto world = fssdp::thread_world{of.plan.ranks()};
    auto const forwarded =
        support::same_over_wires(world, [&](auto& comm) { return support::coded_bits(comm, of); });
    auto const queued = support::on_all_ranks(world, [&](thread_communicator& comm) {
      auto stream = fssdp::host_stream{};
      auto bound = fssdp::on_stream(comm, stream);
      return support::coded_bits(bound, of);
    });
    REQUIRE(forwarded == queued);
  });
  REQUIRE(passed_on > 0);
}

TEST_CASE("coded: over mailboxes with no room, little room and any room, the same bits") {
  auto turn = std::size_t{0};
  support::for_coded_instances(support::some_instances, [&](coded_instance const& of) {
    auto const slots = std::vector<std::size_t>{0, 1, std::size_t(-1)}[turn++ % 3];
    CAPTURE(slots);
    auto world = fssdp::thread_world{of.plan.ranks()};
    auto post_office = support::mailboxes{of.plan.ranks(), slots};
    auto const posted = support::on_all_ranks(world, [&](thread_communicator& thread) {
      auto comm = support::mailbox_communicator{post_office, thread.rank(), turn};
      return support::coded_bits(comm, of);
    });
    auto const forwarded = support::on_all_ranks(
        world, [&](thread_communicator& comm) { return support::coded_bits(comm, of); });
    REQUIRE(posted == forwarded);
  });
}

TEST_CASE("coded collectives run on the archetype") {
  auto comm = support::communicator_archetype{fssdp::rank_id{0}};
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 1}};
  auto const plan = fssdp::make_plan(layout, fssdp::everywhere{}(layout));
  auto shard = fssdp::make_shard<float>(layout, comm.rank(), 5);
  support::fill_like_gradients(shard, 1);
  auto all = fssdp::make_partials<float>(plan, comm.rank(), 5);
  auto gradients = fssdp::make_shard<float>(layout, comm.rank(), 5);
  auto residuals = fssdp::make_partials<float>(plan, comm.rank(), 5);
  auto const links = coded_links{fssdp::int8_codec{}, fssdp::link_class::all};
  fssdp::sparse_all_gather(comm, plan, shard, all, links);
  fssdp::sparse_reduce_scatter(comm, plan, all, gradients, links);
  REQUIRE(support::bits(gradients) == support::bits(shard));  // nothing travels
  fssdp::sparse_reduce_scatter(comm, plan, all, gradients, links, residuals);
  REQUIRE(support::bits(gradients) == support::bits(shard));
}
