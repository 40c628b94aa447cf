// SPDX-License-Identifier: Apache-2.0
/// The data plane does not allocate, once it has been called.
#include <cstddef>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/collective/all_gather_v.hpp"
#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/plan/reshard_plan.hpp"
#include "fssdp/plan/uneven_plan.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "fssdp/topology/topology.hpp"
#include "support/allocation_counter.hpp"
#include "support/coded_instance.hpp"
#include "support/communicator_archetype.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/rank_buffers.hpp"

using fssdp::thread_communicator;
using support::allocations_in;
using support::random_instance;
using support::rank_buffers;

namespace {

/// The allocations of the second and third call, summed over all ranks.
template <class T = float, class Master = T, class Call>
[[nodiscard]] long allocations_of_repeated(random_instance const& of, Call call) {
  auto const counts = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
    auto mine = rank_buffers<T, Master>{of, comm.rank()};
    auto scratch = fssdp::scratch_memory{};
    auto const once = [&] { call(comm, mine, scratch); };
    once();
    return allocations_in(once) + allocations_in(once);
  });
  auto sum = 0L;
  for (auto const of_rank : counts) sum += of_rank;
  return sum;
}

}  // namespace

TEST_CASE("the counter counts") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  auto numbers = std::vector<int>{};
  REQUIRE(allocations_in([&] { numbers.resize(10); }) == 1);
  REQUIRE(allocations_in([] { (void)fssdp::detail::allocate_aligned(100); }) == 1);
  REQUIRE(allocations_in([] {}) == 0);
}

TEST_CASE("a gather allocates once on each rank that relays, and nowhere else") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  auto relays = 0L;
  support::for_random_instances(support::some_instances, [&](random_instance const& of) {
    auto relaying = 0L;
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.layout.ranks()))
      relaying += of.plan.relayed(rank).empty() ? 0 : 1;
    relays += relaying;
    REQUIRE(allocations_of_repeated(of, [&](auto& comm, auto& mine, auto&) {
              fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.replicas);
            }) == 2 * relaying);  // two calls
    REQUIRE(allocations_of_repeated(of, [&](auto& comm, auto& mine, auto&) {
              fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.in_one_piece);
            }) == 2 * relaying);
  });
  REQUIRE(relays > 0);
}

TEST_CASE("a buffer of more than six tensors costs an allocation more, one of six does not") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
  auto const plan = fssdp::make_plan(layout, fssdp::everywhere{}(layout));
  for (auto const count : {6, 7}) {
    auto const sizes = std::vector<std::size_t>(static_cast<std::size_t>(count), 3);
    auto const counts = support::on_all_ranks(2, [&](thread_communicator& comm) {
      auto scratch = fssdp::scratch_memory{};
      auto shard = fssdp::make_shard<float>(layout, comm.rank(), sizes);
      auto replicas = fssdp::make_replicas<float>(plan, comm.rank(), sizes);
      auto partials = fssdp::make_partials<float>(plan, comm.rank(), sizes);
      auto const both = [&] {
        fssdp::sparse_all_gather(comm, plan, shard, replicas, {.scratch = &scratch});
        fssdp::sparse_reduce_scatter(comm, plan, partials, shard, {.scratch = &scratch});
      };
      both();
      return allocations_in(both);
    });
    REQUIRE(counts == std::vector(2, count == 6 ? 0L : 4L));  // of two buffers in each
  }
}

TEST_CASE("a gather with scratch does not allocate, once it has been called") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  support::for_random_instances(support::some_instances, [](random_instance const& of) {
    auto const gather = [&](auto& comm, auto& mine, fssdp::scratch_memory& scratch) {
      fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.replicas, {.scratch = &scratch});
      fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.in_one_piece, {.scratch = &scratch});
    };
    REQUIRE(allocations_of_repeated(of, gather) == 0);
  });
}

TEST_CASE("a gather that converts does not allocate, once it has been called with scratch") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  support::for_random_instances(support::some_instances, [](random_instance const& of) {
    auto const gather = [&](auto& comm, auto& mine, fssdp::scratch_memory& scratch) {
      fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.replicas, {.scratch = &scratch});
      fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.in_one_piece, {.scratch = &scratch});
    };
    REQUIRE(allocations_of_repeated<fssdp::bf16, float>(of, gather) == 0);
  });
}

TEST_CASE("a reduction with scratch does not allocate, once it has been called") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  support::for_random_instances(support::some_instances, [](random_instance const& of) {
    auto const reduce = [&](auto& comm, auto& mine, fssdp::scratch_memory& scratch) {
      fssdp::sparse_reduce_scatter(comm, of.plan, mine.partials, mine.gradients,
                                   {.scratch = &scratch});
    };
    REQUIRE(allocations_of_repeated(of, reduce) == 0);
    REQUIRE(allocations_of_repeated(of, [&](auto& comm, auto& mine, auto& scratch) {
              auto bare = support::exchange_only{comm};
              reduce(bare, mine, scratch);
            }) == 0);
  });
}

TEST_CASE("a reduction without scratch allocates once") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  support::for_random_instances(support::some_instances, [](random_instance const& of) {
    auto const sum = allocations_of_repeated(of, [&](auto& comm, auto& mine, auto&) {
      fssdp::sparse_reduce_scatter(comm, of.plan, mine.partials, mine.gradients);
    });
    REQUIRE(sum == 2L * of.layout.ranks());  // two calls on each rank
  });
}

TEST_CASE("the caller of a bound communicator does not allocate") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  support::for_random_instances(support::some_instances, [](random_instance const& of) {
    auto const counts = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
      auto mine = rank_buffers<float>{of, comm.rank()};
      auto stream = fssdp::host_stream{};
      auto queued = fssdp::on_stream(comm, stream);
      auto const call = [&] {
        fssdp::sparse_all_gather(queued, of.plan, mine.shard, mine.replicas);
        fssdp::sparse_reduce_scatter(queued, of.plan, mine.partials, mine.gradients);
        queued.synchronize();
      };
      call();
      return allocations_in(call);
    });
    REQUIRE(counts == std::vector(counts.size(), 0L));
  });
}

TEST_CASE("coded collectives with scratch do not allocate, once they have been called") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  support::for_coded_instances(support::some_instances, [](support::coded_instance const& of) {
    auto const links = fssdp::coded_links{fssdp::int8_codec{}, of.on};
    auto const both = [&](auto& comm, auto& mine, fssdp::scratch_memory& scratch) {
      fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.in_one_piece, links,
                               {.scratch = &scratch});
      fssdp::sparse_reduce_scatter(comm, of.plan, mine.partials, mine.gradients, links,
                                   mine.in_one_piece, {.scratch = &scratch});
    };
    REQUIRE(allocations_of_repeated(of, both) == 0);
    REQUIRE(allocations_of_repeated(of, [&](auto& comm, auto& mine, auto& scratch) {
              auto bare = support::exchange_only{comm};
              both(bare, mine, scratch);
            }) == 0);
  });
}

TEST_CASE("plans are copied without an allocation") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  support::for_random_instances(support::some_instances, [](random_instance const& of) {
    auto const moves = fssdp::reshard_plan{of.layout, of.layout};
    REQUIRE(allocations_in([&] { (void)fssdp::transfer_plan{of.plan}; }) == 0);
    REQUIRE(allocations_in([&] { (void)fssdp::reshard_plan{moves}; }) == 0);
  });
}

TEST_CASE("collectives of uneven blocks allocate nothing from their second call on") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  auto const plan =
      fssdp::uneven_plan{fssdp::consecutive_blocks(std::vector<std::size_t>{30'000, 10, 4'000}),
                         fssdp::topology{{.ranks = 3}},
                         sizeof(float),
                         {.least_bytes = 4096}};
  auto const allocations = support::on_all_ranks(3, [&](thread_communicator& comm) {
    auto mine = std::vector<float>(plan.elements(comm.rank()));
    auto all = std::vector<float>(plan.elements());
    auto scratch = fssdp::scratch_memory{};
    auto const once = [&] {
      all_gather_v(comm, plan, mine, all, fssdp::uncoded{}, {.scratch = &scratch});
      reduce_scatter_v(comm, plan, all, mine, fssdp::uncoded{}, {.scratch = &scratch});
    };
    once();
    return allocations_in(once);
  });
  REQUIRE(allocations == std::vector<long>(3));
}
