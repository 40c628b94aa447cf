// SPDX-License-Identifier: Apache-2.0
/// Bit for bit what a naive reference gives, over direct, node-aware and scheduled plans, whole and
/// sliced experts, equal and different types.
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/cut_chunks.hpp"
#include "support/float_data.hpp"
#include "support/laws.hpp"
#include "support/naive_collectives.hpp"
#include "support/on_all_ranks.hpp"

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
        support::take(of, rank, shards[rank.index()], k, owned);
        support::cut(of, rank, got[rank.index()], k, gathered);
      }
      REQUIRE(support::different(gathered, support::naive_gather<To>(of.plan, owned)) == 0);
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
        support::cut(of, rank, partials[rank.index()], k, contributed);
        support::take(of, rank, got[rank.index()], k, reduced);
      }
      REQUIRE(support::different(reduced, support::naive_reduction<To>(of.plan, contributed)) == 0);
    }
  });
}
