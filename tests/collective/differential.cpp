// SPDX-License-Identifier: Apache-2.0
/// Bit for bit what a naive reference gives, over direct, node-aware and scheduled plans, whole and
/// sliced experts, equal and different types.
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/float_data.hpp"
#include "support/laws.hpp"
#include "support/naive_collectives.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::chunk_id;
using fssdp::rank_id;
using fssdp::thread_communicator;
using support::chunks_on_ranks;
using support::random_instance;

namespace {

template <class From, class To>
struct types {
  using from = From;
  using to = To;
};

/// A buffer of a rank filled from its seed: other numbers on every rank.
template <class T>
[[nodiscard]] fssdp::expert_buffer<T> filled(fssdp::expert_buffer<T> buffer, rank_id rank) {
  support::fill_roughly(buffer, rank.index() + 1);
  return buffer;
}

/// Cuts tensor k of whole experts into chunks.
template <class T>
void cut(random_instance const& of, rank_id rank, fssdp::expert_buffer<T> const& whole,
         std::size_t k, chunks_on_ranks<T>& into) {
  auto slot = std::size_t{0};
  for (auto const expert : of.plan.held(rank)) {
    auto const elements = whole.tensors()[k][slot++];
    for (auto const slice : fssdp::first_n<fssdp::slice_id>(of.layout.slices())) {
      auto const part = fssdp::slice_extent{elements.size(), slice, of.layout.slices()};
      auto const cut_out = elements.subspan(part.first, part.elements);
      into[{rank, {expert, slice}}].assign(cut_out.begin(), cut_out.end());
    }
  }
}
/// Takes tensor k of the chunks of a shard.
template <class T>
void take(random_instance const& of, rank_id rank, fssdp::expert_buffer<T> const& shard,
          std::size_t k, chunks_on_ranks<T>& into) {
  auto slot = std::size_t{0};
  for (auto const chunk : of.layout.owned(rank)) {
    auto const part = fssdp::slice_extent{of.elements[k], chunk.slice, of.layout.slices()};
    auto const elements = shard.tensors()[k][slot++].first(part.elements);
    into[{rank, chunk}].assign(elements.begin(), elements.end());
  }
}

/// How many elements of chunks that a rank is to have differ in a bit.
template <class T>
[[nodiscard]] int different(chunks_on_ranks<T> const& got, chunks_on_ranks<T> const& expected) {
  auto count = 0;
  for (auto const& [place, elements] : got) {
    auto const& right = expected.at(place);
    if (right.size() != elements.size()) return -1;
    for (std::size_t i = 0; i < elements.size(); ++i)
      count += support::bits(elements[i]) != support::bits(right[i]) ? 1 : 0;
  }
  return count;
}

template <class Buffer>
using per_rank = std::vector<Buffer>;

}  // namespace

TEMPLATE_TEST_CASE("a gather gives the bits of the naive reference", "", (types<float, float>),
                   (types<float, fssdp::bf16>), (types<float, fssdp::fp16>), (types<double, float>),
                   (types<fssdp::fp16, double>)) {
  using From = typename TestType::from;
  using To = typename TestType::to;
  support::for_random_instances(support::law_instances / 25, [](random_instance const& of) {
    auto shards = per_rank<fssdp::expert_buffer<From>>{};
    for (auto const rank : fssdp::first_n<rank_id>(of.layout.ranks()))
      shards.push_back(filled(fssdp::make_shard<From>(of.layout, rank, of.elements), rank));
    auto const got = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
      auto all = fssdp::make_partials<To>(of.plan, comm.rank(), of.elements);
      fssdp::sparse_all_gather(comm, of.plan, shards[comm.rank().index()], all);
      return all;
    });
    for (std::size_t k = 0; k < of.elements.size(); ++k) {
      auto owned = chunks_on_ranks<From>{};
      auto gathered = chunks_on_ranks<To>{};
      for (auto const rank : fssdp::first_n<rank_id>(of.layout.ranks())) {
        take(of, rank, shards[rank.index()], k, owned);
        cut(of, rank, got[rank.index()], k, gathered);
      }
      REQUIRE(different(gathered, support::naive_gather<To>(of.plan, owned)) == 0);
    }
  });
}

TEMPLATE_TEST_CASE("a reduction gives the bits of the naive reference", "", (types<float, float>),
                   (types<double, double>), (types<fssdp::bf16, float>),
                   (types<fssdp::fp16, float>), (types<fssdp::bf16, fssdp::bf16>)) {
  using From = typename TestType::from;
  using To = typename TestType::to;
  support::for_random_instances(support::law_instances / 25, [](random_instance const& of) {
    auto partials = per_rank<fssdp::expert_buffer<From>>{};
    for (auto const rank : fssdp::first_n<rank_id>(of.layout.ranks()))
      partials.push_back(filled(fssdp::make_partials<From>(of.plan, rank, of.elements), rank));
    auto const got = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
      auto gradients = fssdp::make_shard<To>(of.layout, comm.rank(), of.elements);
      fssdp::sparse_reduce_scatter(comm, of.plan, partials[comm.rank().index()], gradients);
      return gradients;
    });
    for (std::size_t k = 0; k < of.elements.size(); ++k) {
      auto contributed = chunks_on_ranks<From>{};
      auto reduced = chunks_on_ranks<To>{};
      for (auto const rank : fssdp::first_n<rank_id>(of.layout.ranks())) {
        cut(of, rank, partials[rank.index()], k, contributed);
        take(of, rank, got[rank.index()], k, reduced);
      }
      REQUIRE(different(reduced, support::naive_reduction<To>(of.plan, contributed)) == 0);
    }
  });
}
