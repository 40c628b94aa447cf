// SPDX-License-Identifier: Apache-2.0
/// memory_required equals the memory that a call uses, byte for byte.
#include "fssdp/collective/memory_required.hpp"

#include <array>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "support/coded_instance.hpp"
#include "support/communicator_archetype.hpp"
#include "support/hundreds_codec.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::memory_use;
using fssdp::thread_communicator;
using support::random_instance;

namespace {

/// What a rank takes to gather and to reduce, where peers' memory cannot be borrowed; with links or
/// without.
template <class Weight, class Replica, class Partial, class... Links>
[[nodiscard]] memory_use taken(thread_communicator& comm, random_instance const& of,
                               Links const&... links) {
  auto bare = support::exchange_only{comm};
  auto const me = comm.rank();
  auto const shard = fssdp::make_shard<Weight>(of.layout, me, of.elements);
  auto gradients = fssdp::make_shard<Weight>(of.layout, me, of.elements);
  auto const partials = fssdp::make_partials<Partial>(of.plan, me, of.elements);
  auto replicas = std::is_same_v<Weight, Replica> && sizeof...(Links) == 0
                      ? fssdp::make_replicas<Replica>(of.plan, me, of.elements)
                      : fssdp::make_partials<Replica>(of.plan, me, of.elements);
  auto gather_scratch = fssdp::scratch_memory{};
  auto reduce_scratch = fssdp::scratch_memory{};
  fssdp::sparse_all_gather(bare, of.plan, shard, replicas, links..., {.scratch = &gather_scratch});
  fssdp::sparse_reduce_scatter(bare, of.plan, partials, gradients, links...,
                               {.scratch = &reduce_scratch});
  return {.replicas = replicas.bytes(),
          .partials = partials.bytes(),
          .gather_scratch = gather_scratch.bytes(),
          .reduce_scratch = reduce_scratch.bytes()};
}

template <class Weight, class Replica, class Partial>
void check() {
  support::for_random_instances(support::law_instances / 50 + 1, [](random_instance const& of) {
    auto const use = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
      return taken<Weight, Replica, Partial>(comm, of);
    });
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.layout.ranks()))
      REQUIRE(fssdp::memory_required<Weight, Replica, Partial>(of.plan, rank, of.elements) ==
              use[rank.index()]);
  });
}

template <class Weight, class Replica, class Partial, class Codec>
void check_coded(Codec const& coder) {
  support::for_coded_instances(
      support::law_instances / 50 + 1, [&](support::coded_instance const& of) {
        auto const links = fssdp::coded_links{coder, of.on};
        auto const use = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
          return taken<Weight, Replica, Partial>(comm, of, links);
        });
        for (auto const rank : fssdp::first_n<fssdp::rank_id>(of.layout.ranks()))
          REQUIRE(fssdp::memory_required<Weight, Replica, Partial>(of.plan, rank, of.elements,
                                                                   links) == use[rank.index()]);
      });
}

}  // namespace

TEST_CASE("a plan takes the memory that memory_required says") {
  check<float, float, float>();
  check<float, fssdp::bf16, fssdp::bf16>();
}

TEST_CASE("a plan with a codec takes the memory that memory_required says") {
  check_coded<float, float, float>(fssdp::int8_codec{});
  check_coded<float, fssdp::bf16, double>(support::hundreds_codec{});
}

TEST_CASE("memory_required by hand: a replica of 1000 floats, partials of two experts") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
  auto where = fssdp::placement{layout};
  where.add(fssdp::expert_id{1}, fssdp::rank_id{0});
  auto const plan = fssdp::make_plan(layout, where);
  auto const use = fssdp::memory_required<float>(plan, fssdp::rank_id{0}, 1000);
  REQUIRE(use.replicas == 4032);  // to the next cache line
  REQUIRE(use.partials == 8000);
  REQUIRE(use.gather_scratch == 0);
  REQUIRE(use.total() == use.replicas + use.partials + use.reduce_scratch);
}

TEST_CASE("experts of more bytes than can be counted are refused before anything is allocated") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto const plan = fssdp::make_plan(layout, fssdp::everywhere{}(layout));
  auto const most = std::numeric_limits<std::size_t>::max();
  for (auto const elements : {most, most / 4, most / 8}) {
    CAPTURE(elements);
    auto const ask = [&] {
      return fssdp::memory_required<double>(plan, fssdp::rank_id{0}, elements);
    };
    REQUIRE_THROWS_AS(ask(), fssdp::argument_error);
    REQUIRE_THROWS_WITH(ask(), mentions("expected at most"));
  }
}
