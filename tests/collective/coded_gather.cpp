// SPDX-License-Identifier: Apache-2.0
/// What a coded gather promises: all that hold an expert have what its owner's payload says, bit
/// for bit, and chunks that no coded link carries are as they were.
#include <algorithm>
#include <cmath>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/codec/fp8_e4m3_codec.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/collective/any_tensors.hpp"
#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "support/any_codec.hpp"
#include "support/buffers_on_ranks.hpp"
#include "support/coded_instance.hpp"
#include "support/cut_chunks.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/types.hpp"

using fssdp::coded_links;
using fssdp::dtype;
using fssdp::link_class;
using fssdp::thread_communicator;
using support::any_codec;
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

/// The same of dtypes and a codec that are values.
[[nodiscard]] std::vector<support::any_buffer> gathered(
    support::random_instance const& of, std::vector<support::any_buffer> const& shards, dtype to,
    fssdp::link_coding const& coding) {
  return support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
    auto all = support::any_partials(of, comm.rank(), to);
    fssdp::sparse_all_gather(comm, of.plan, shards[comm.rank().index()], all, coding);
    return all;
  });
}

/// What everybody is to have of a chunk: each piece by itself, encoded and decoded.
[[nodiscard]] support::values expected(coded_instance const& of, fssdp::chunk_id chunk,
                                       support::values const& own, dtype to,
                                       any_codec const& coder) {
  auto result = support::values{};
  if (!support::any_goes_over(of, of.on, chunk)) {
    for (auto const value : own) result.push_back(support::rounded(to, value));
    return result;
  }
  for (int piece = 0; piece < of.plan.pieces(); ++piece) {
    auto const part = fssdp::piece_extent{own.size(), piece, of.plan.pieces()};
    auto const elements = std::span{own}.subspan(part.first, part.elements);
    for (auto const value : coder.coded_and_decoded(elements))
      result.push_back(support::rounded(to, value));
  }
  return result;
}

/// How many chunks have gone over a coded link, and how many over none.
struct chunk_counts {
  int coded = 0;
  int exact = 0;
};

template <class Shards, class Gathered>
void require_payloads(coded_instance const& of, Shards const& shards, Gathered const& got, dtype to,
                      any_codec const& coder, chunk_counts& counts) {
  for (std::size_t k = 0; k < of.elements.size(); ++k) {
    auto right = chunks_on_ranks{};
    for (auto const& [place, own] : owned_chunks(of, shards, k)) {
      auto const chunk = place.second;
      (support::any_goes_over(of, of.on, chunk) ? counts.coded : counts.exact) += 1;
      for (auto const holder : of.where.holders(chunk.expert))
        right[{holder, chunk}] = expected(of, chunk, own, to, coder);
    }
    REQUIRE(support::different(held_chunks(of, got, k), right) == 0);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("all holders have the decoded payload of each piece, and exact chunks otherwise",
                   "", (types<float, float, fssdp::bf16_codec>),
                   (types<float, fssdp::bf16, fssdp::fp8_e4m3_codec>)) {
  using From = typename TestType::from;
  using To = typename TestType::to;
  auto const coder = typename TestType::codec{};
  auto counts = chunk_counts{};
  support::for_coded_instances(support::some_instances, [&](coded_instance const& of) {
    auto const shards = filled_shards<From>(of);
    auto const got = gathered<To>(of, shards, coded_links{coder, of.on});
    require_payloads(of, shards, got, fssdp::dtype_of<To>, any_codec{"", coder}, counts);
  });
  REQUIRE(counts.coded > 0);
  REQUIRE(counts.exact > 0);
}

TEST_CASE("coded gathers convert from any dtype to any dtype, with any codec") {
  auto const pairs = support::pairs_of_dtypes();
  auto next = std::size_t{0};
  for (auto const& coder : support::all_codecs()) {
    auto counts = chunk_counts{};
    support::for_coded_instances(2 * support::some_instances, [&](coded_instance const& of) {
      auto const& [from, to] = pairs[next++ % pairs.size()];
      CAPTURE(coder.name, fssdp::name_of(from), fssdp::name_of(to));
      auto const shards = support::filled_like_gradients(support::any_shards_on_ranks(of, from));
      require_payloads(of, shards, gathered(of, shards, to, coder.on(of.on)), to, coder, counts);
    });
    REQUIRE(counts.coded > 0);
    REQUIRE(counts.exact > 0);
  }
}

TEST_CASE("no element is off by more than the bound of its block") {
  for (auto const& coder : support::all_codecs())
    support::for_coded_instances(support::some_instances, [&](coded_instance const& of) {
      CAPTURE(coder.name);
      auto const shards =
          support::filled_like_gradients(support::any_shards_on_ranks(of, dtype::fp32));
      auto const got = gathered(of, shards, dtype::fp32, coder.on(of.on));
      auto wrong = 0;
      for (std::size_t k = 0; k < of.elements.size(); ++k) {
        auto const owned = owned_chunks(of, shards, k);
        for (auto const& [place, elements] : held_chunks(of, got, k)) {
          auto const chunk = place.second;
          auto const& own = owned.at({of.layout.owner(chunk), chunk});
          for (int piece = 0; piece < of.plan.pieces(); ++piece) {
            auto const part = fssdp::piece_extent{own.size(), piece, of.plan.pieces()};
            auto const before = std::vector<float>(own.begin(), own.end());
            auto const of_piece = std::span{before}.subspan(part.first, part.elements);
            auto const largest = support::largest_of_blocks(of_piece, coder.block_elements);
            for (std::size_t i = 0; i < of_piece.size(); ++i) {
              auto const error = std::abs(elements[part.first + i] - own[part.first + i]);
              auto const bound = coder.error_bound(of_piece[i], largest[i / coder.block_elements]);
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

TEST_CASE("without a topology there are no links between nodes, so none is coded") {
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
