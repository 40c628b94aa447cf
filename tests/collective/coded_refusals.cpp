// SPDX-License-Identifier: Apache-2.0
/// Buffers that do not fit a coded collective are refused before anything is sent; ranks that do
/// not agree about the codec get an error.
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/codec/fp8_e4m3_codec.hpp"
#include "fssdp/codec/fp8_e5m2_codec.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "support/on_all_ranks.hpp"
#include "support/refusal.hpp"

using fssdp::coded_links;
using fssdp::expert_tensor;
using fssdp::link_class;
using fssdp::rank_id;
using fssdp::thread_communicator;
using support::refuses;

namespace {

/// Two ranks on two nodes: each owns an expert and holds both.
struct two_nodes {
  fssdp::block_layout layout{{.experts = 2, .ranks = 2}};
  fssdp::transfer_plan plan =
      make_plan(layout, fssdp::everywhere{}(layout), fssdp::topology{{.nodes = 2, .ranks = 2}});
};

/// What comes out if rank 0 calls the one, rank 1 the other.
template <class Zero, class One>
void disagree(Zero zero, One one) {
  auto const of = two_nodes{};
  auto world = fssdp::thread_world{2};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto shard = fssdp::make_shard<fssdp::bf16>(of.layout, comm.rank(), 300);
    auto all = fssdp::make_partials<fssdp::bf16>(of.plan, comm.rank(), 300);
    if (comm.rank() == rank_id{0})
      zero(comm, of.plan, shard, all);
    else
      one(comm, of.plan, shard, all);
  });
  REQUIRE(support::is<fssdp::ranks_disagree>(result.of_run));
  REQUIRE(support::failed_rank(result.of_rank[0]) == 1);
  REQUIRE(support::failed_rank(result.of_rank[1]) == 0);
}

template <class... Links>
[[nodiscard]] auto gathers(Links... links) {
  return [=](auto& comm, auto const& plan, auto& shard, auto& all) {
    fssdp::sparse_all_gather(comm, plan, shard, all, links...);
  };
}
template <class... Links>
[[nodiscard]] auto reduces(Links... links) {
  return [=](auto& comm, auto const& plan, auto& shard, auto& all) {
    fssdp::sparse_reduce_scatter(comm, plan, all, shard, links...);
  };
}

}  // namespace

TEST_CASE("a coded gather without slots for all held experts is an error that says why") {
  auto const of = two_nodes{};
  auto const links = coded_links{fssdp::int8_codec{}};
  auto const remote = [&](auto& comm) {
    auto shard = fssdp::make_shard<float>(of.layout, comm.rank(), 4);
    auto to = fssdp::make_replicas<float>(of.plan, comm.rank(), 4);
    fssdp::sparse_all_gather(comm, of.plan, shard, to, links);
  };
  refuses(remote, "sparse_all_gather: to has 1 slots; expected 2", "its own are decoded");
  auto memory = std::vector<float>(16);
  auto const aliased = [&](auto& comm) {
    auto const to = expert_tensor<float>{memory.data() + 2, 2, 4};
    fssdp::sparse_all_gather(comm, of.plan, expert_tensor<float>{memory.data(), 1, 4}, to, links);
  };
  refuses(aliased, "share memory");
}

TEST_CASE("residuals that do not fit are refused by name") {
  auto const of = two_nodes{};
  auto memory = std::vector<float>(64);
  auto const at = [&](std::size_t first, std::size_t slots, std::size_t elements = 4) {
    return expert_tensor<float>{memory.data() + first, slots, elements};
  };
  auto const with = [&](auto residuals) {
    return [&, residuals](auto& comm) {
      fssdp::sparse_reduce_scatter(comm, of.plan, at(0, 2), at(8, 1),
                                   coded_links{fssdp::int8_codec{}}, residuals);
    };
  };
  refuses(with(at(16, 1)), "residuals has 1 slots; expected 2");
  refuses(with(at(16, 2, 3)), "3 elements in residuals, 4 in from");
  refuses(with(std::vector{at(16, 2), at(32, 2)}), "residuals has 2 tensors");
  refuses(with(at(4, 2)), "from and residuals share memory");
  refuses(with(at(9, 2)), "to and residuals share memory");
  refuses(with(expert_tensor<float>{nullptr, 2, 4}), "tensor 0 of residuals is null");
}

TEST_CASE("ranks with different codecs get an error, even if their payloads have equal sizes") {
  disagree(gathers(coded_links{fssdp::int8_codec{}}),
           gathers(coded_links{fssdp::fp8_e4m3_codec{}}));
  disagree(reduces(coded_links{fssdp::fp8_e4m3_codec{}}),
           reduces(coded_links{fssdp::fp8_e5m2_codec{}}));
}

TEST_CASE("ranks with and without a codec get an error, even if messages have equal sizes") {
  disagree(gathers(coded_links{fssdp::bf16_codec{}}), gathers());
  disagree(reduces(), reduces(coded_links{fssdp::bf16_codec{}}));
}

TEST_CASE(
    "ranks that code different links get an error, even if the plan has only one kind of link") {
  auto const crossing = coded_links{fssdp::int8_codec{}};
  auto const all = coded_links{fssdp::int8_codec{}, link_class::all};
  disagree(gathers(crossing), gathers(all));
  disagree(reduces(all), reduces(crossing));
}

TEST_CASE("ranks whose plans put them on different nodes get an error") {
  auto const of = two_nodes{};
  auto const one_node = make_plan(of.layout, of.plan.where());
  auto const other =
      one_node.realised_by({of.plan.transfers().begin(), of.plan.transfers().end()}, 1);
  REQUIRE(other.hash_value() == of.plan.hash_value());
  auto world = fssdp::thread_world{2};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto const& plan = comm.rank() == rank_id{0} ? of.plan : other;
    auto shard = fssdp::make_shard<fssdp::bf16>(of.layout, comm.rank(), 300);
    auto all = fssdp::make_partials<fssdp::bf16>(of.plan, comm.rank(), 300);
    fssdp::sparse_all_gather(comm, plan, shard, all, coded_links{fssdp::bf16_codec{}});
  });
  REQUIRE(support::is<fssdp::ranks_disagree>(result.of_run));
}
