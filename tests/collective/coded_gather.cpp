// SPDX-License-Identifier: Apache-2.0
/// What a coded gather promises: all that hold an expert have what its owner's payload says, bit
/// for bit, and chunks that no coded link carries are as they were.
#include <algorithm>
#include <cmath>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/codec/fp8_e4m3_codec.hpp"
#include "fssdp/codec/fp8_e5m2_codec.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "support/coded_instance.hpp"
#include "support/cut_chunks.hpp"
#include "support/hundreds_codec.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/types.hpp"

using fssdp::coded_links;
using fssdp::link_class;
using fssdp::thread_communicator;
using support::chunks_on_ranks;
using support::coded_instance;
using support::held_chunks;
using support::owned_chunks;
using support::per_rank;
using support::types;

namespace {

/// Shards like gradients, others on every rank.
template <class From>
[[nodiscard]] per_rank<From> filled_shards(coded_instance const& of) {
  return support::filled_like_gradients(support::shards_on_ranks<From>(of));
}

/// What each rank holds after a coded gather.
template <class To, class From, class Codec>
[[nodiscard]] per_rank<To> gathered(support::random_instance const& of,
                                    per_rank<From> const& shards, coded_links<Codec> const& links) {
  return support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
    auto all = fssdp::make_partials<To>(of.plan, comm.rank(), of.elements);
    fssdp::sparse_all_gather(comm, of.plan, shards[comm.rank().index()], all, links);
    return all;
  });
}

/// What everybody is to have of a chunk: each piece by itself, encoded and decoded.
template <class To, class From, class Codec>
[[nodiscard]] std::vector<To> expected(coded_instance const& of, fssdp::chunk_id chunk,
                                       std::vector<From> const& own, Codec const& coder) {
  auto result = std::vector<To>{};
  if (!support::any_goes_over(of, of.on, chunk)) {
    for (auto const value : own) result.push_back(static_cast<To>(static_cast<double>(value)));
    return result;
  }
  for (int piece = 0; piece < of.plan.pieces(); ++piece) {
    auto const part = fssdp::piece_extent{own.size(), piece, of.plan.pieces()};
    auto const elements = std::span<From const>{own}.subspan(part.first, part.elements);
    for (auto const value : support::coded_and_decoded(coder, elements))
      result.push_back(static_cast<To>(value));
  }
  return result;
}

}  // namespace

TEMPLATE_TEST_CASE("all holders have what each piece's payload says, and exact chunks otherwise",
                   "",
                   TYPES_OF_A_TEST((types<float, float, fssdp::bf16_codec>),
                                   (types<float, fssdp::bf16, fssdp::fp8_e4m3_codec>),
                                   (types<fssdp::bf16, float, fssdp::fp8_e5m2_codec>),
                                   (types<double, float, fssdp::int8_codec>),
                                   (types<float, double, support::hundreds_codec>),
                                   (types<fssdp::fp16, fssdp::fp16, support::hundreds_codec>))) {
  using From = typename TestType::from;
  using To = typename TestType::to;
  auto coder = typename TestType::codec{};
  if constexpr (requires { coder.levels; }) coder.levels = 77;
  auto coded = 0;
  auto exact = 0;
  support::for_coded_instances(support::some_instances, [&](coded_instance const& of) {
    auto const shards = filled_shards<From>(of);
    auto const got = gathered<To>(of, shards, coded_links{coder, of.on});
    for (std::size_t k = 0; k < of.elements.size(); ++k) {
      auto right = chunks_on_ranks<To>{};
      for (auto const& [place, own] : owned_chunks(of, shards, k)) {
        auto const chunk = place.second;
        (support::any_goes_over(of, of.on, chunk) ? coded : exact) += 1;
        for (auto const holder : of.where.holders(chunk.expert))
          right[{holder, chunk}] = expected<To>(of, chunk, own, coder);
      }
      REQUIRE(support::different(held_chunks(of, got, k), right) == 0);
    }
  });
  REQUIRE(coded > 0);
  REQUIRE(exact > 0);
}

TEMPLATE_TEST_CASE("no element is off by more than the bound of its block", "", fssdp::bf16_codec,
                   fssdp::fp8_e4m3_codec, fssdp::fp8_e5m2_codec, fssdp::int8_codec,
                   support::hundreds_codec) {
  auto const coder = TestType{};
  support::for_coded_instances(support::some_instances, [&](coded_instance const& of) {
    auto const shards = filled_shards<float>(of);
    auto const got = gathered<float>(of, shards, coded_links{coder, of.on});
    auto wrong = 0;
    for (std::size_t k = 0; k < of.elements.size(); ++k) {
      auto const owned = owned_chunks(of, shards, k);
      for (auto const& [place, elements] : held_chunks(of, got, k)) {
        auto const chunk = place.second;
        auto const& own = owned.at({of.layout.owner(chunk), chunk});
        for (int piece = 0; piece < of.plan.pieces(); ++piece) {
          auto const part = fssdp::piece_extent{own.size(), piece, of.plan.pieces()};
          auto const before = std::span{own}.subspan(part.first, part.elements);
          auto const largest = support::largest_of_blocks(before, TestType::block_elements);
          for (std::size_t i = 0; i < before.size(); ++i) {
            auto const error = std::abs(static_cast<double>(elements[part.first + i]) -
                                        static_cast<double>(before[i]));
            auto const bound = coder.error_bound(before[i], largest[i / TestType::block_elements]);
            wrong += error <= bound ? 0 : 1;
          }
        }
      }
    }
    REQUIRE(wrong == 0);
  });
}

TEST_CASE("where blocks fit into pieces, every plan of a placement gives equal bits") {
  support::for_coded_instances(support::some_instances, [](coded_instance of) {
    auto draw = support::dice{of.elements.front()};
    auto const shards = filled_shards<float>(of);
    auto const bits_by = [&](support::plan_kind kind) {
      of.plan = support::plan_of(of, kind, draw);
      auto bits = std::vector<std::vector<std::uint64_t>>{};
      for (auto const& all :
           gathered<float>(of, shards, coded_links{fssdp::int8_codec{}, link_class::all}))
        bits.push_back(support::bits(all));
      return bits;
    };
    auto const direct = bits_by(support::plan_kind::direct);
    REQUIRE(bits_by(support::plan_kind::chain) == direct);
    REQUIRE(bits_by(support::plan_kind::scheduled) == direct);
  });
}

TEST_CASE("a plan without a topology has no links between nodes: nothing is coded there") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
  auto const plan = fssdp::make_plan(layout, fssdp::everywhere{}(layout));
  auto const got_on = [&](link_class on) {
    return support::on_all_ranks(2, [&](thread_communicator& comm) {
      auto shard = fssdp::make_shard<float>(layout, comm.rank(), 2);
      shard.tensors()[0][0][0] = 1.0F;
      shard.tensors()[0][0][1] = 1.001F;
      auto all = fssdp::make_partials<float>(plan, comm.rank(), 2);
      fssdp::sparse_all_gather(comm, plan, shard, all, coded_links{fssdp::bf16_codec{}, on});
      if (shard.tensors()[0][0][1] != 1.001F) return std::vector{0.0F};  // it keeps its own
      return std::vector{all.tensors()[0][0][1], all.tensors()[0][1][1]};
    });
  };
  auto const exact = std::vector{1.001F, 1.001F};
  auto const rounded = std::vector{1.0F, 1.0F};
  REQUIRE(got_on(link_class::between_nodes) == std::vector{exact, exact});
  REQUIRE(got_on(link_class::inside_nodes) == std::vector{rounded, rounded});
  REQUIRE(got_on(link_class::all) == std::vector{rounded, rounded});
}
