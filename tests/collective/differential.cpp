// SPDX-License-Identifier: Apache-2.0
/// Bit for bit what a naive reference gives, over direct, node-aware and scheduled plans, whole and
/// sliced experts, equal and different types.
#include <cstddef>

#include "catch.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/cut_chunks.hpp"
#include "support/float_data.hpp"
#include "support/laws.hpp"
#include "support/naive_collectives.hpp"
#include "support/on_all_ranks.hpp"
#include "support/types.hpp"

using fssdp::thread_communicator;
using support::held_chunks;
using support::owned_chunks;
using support::per_rank;
using support::random_instance;
using support::types;

namespace {

/// Buffers filled from seeds: other numbers on every rank.
template <class T>
[[nodiscard]] per_rank<T> filled(per_rank<T> buffers) {
  for (std::size_t rank = 0; rank < buffers.size(); ++rank)
    support::fill_roughly(buffers[rank], rank + 1);
  return buffers;
}

}  // namespace

TEMPLATE_TEST_CASE("a gather gives the bits of the naive reference", "",
                   TYPES_OF_A_TEST((types<float, float>), (types<float, fssdp::bf16>),
                                   (types<float, fssdp::fp16>), (types<double, float>),
                                   (types<fssdp::fp16, double>), (types<float, fssdp::fp8_e4m3>),
                                   (types<fssdp::fp8_e5m2, fssdp::bf16>),
                                   (types<fssdp::fp8_e4m3, fssdp::fp8_e5m2>))) {
  using From = typename TestType::from;
  using To = typename TestType::to;
  support::for_random_instances(support::law_instances / 25, [](random_instance const& of) {
    auto const shards = filled(support::shards_on_ranks<From>(of));
    auto const got = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
      auto all = fssdp::make_partials<To>(of.plan, comm.rank(), of.elements);
      fssdp::sparse_all_gather(comm, of.plan, shards[comm.rank().index()], all);
      return all;
    });
    for (std::size_t k = 0; k < of.elements.size(); ++k) {
      auto const right = support::naive_gather<To>(of.plan, owned_chunks(of, shards, k));
      REQUIRE(support::different(held_chunks(of, got, k), right) == 0);
    }
  });
}

TEMPLATE_TEST_CASE("a reduction gives the bits of the naive reference", "",
                   TYPES_OF_A_TEST((types<float, float>), (types<fssdp::bf16, float>),
                                   (types<double, double>), (types<fssdp::fp16, float>),
                                   (types<fssdp::bf16, fssdp::bf16>),
                                   (types<fssdp::fp8_e5m2, float>),
                                   (types<fssdp::fp8_e4m3, fssdp::fp8_e4m3>))) {
  using From = typename TestType::from;
  using To = typename TestType::to;
  support::for_random_instances(support::law_instances / 25, [](random_instance const& of) {
    auto const partials = filled(support::partials_on_ranks<From>(of));
    auto const got = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
      auto gradients = fssdp::make_shard<To>(of.layout, comm.rank(), of.elements);
      fssdp::sparse_reduce_scatter(comm, of.plan, partials[comm.rank().index()], gradients);
      return gradients;
    });
    for (std::size_t k = 0; k < of.elements.size(); ++k) {
      auto const right = support::naive_reduction<To>(of.plan, held_chunks(of, partials, k));
      REQUIRE(support::different(owned_chunks(of, got, k), right) == 0);
    }
  });
}
