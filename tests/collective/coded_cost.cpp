// SPDX-License-Identifier: Apache-2.0
/// What coded collectives cost, counted: the messages of the plan, with the bytes of payloads where
/// something is coded.
#include <cstddef>

#include "catch.hpp"
#include "fssdp/codec/fp8_e5m2_codec.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "support/coded_instance.hpp"
#include "support/collective_cost.hpp"
#include "support/laws.hpp"
#include "support/rank_buffers.hpp"

using fssdp::coded_links;
using support::coded_instance;
using support::cost_of;
using support::expected_traffic;

namespace {

using coded_buffers = support::rank_buffers<fssdp::bf16, float>;

}  // namespace

TEST_CASE(
    "a coded gather sends payloads of coded chunks and all other chunks unchanged, and copies each "
    "once") {
  support::for_coded_instances(support::some_instances, [](coded_instance const& of) {
    auto const costs = cost_of(of, [&](auto& comm) {
      auto mine = coded_buffers{of, comm.rank()};
      fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.in_one_piece,
                               coded_links{fssdp::int8_codec{}, of.on});
    });
    auto const expected = expected_traffic(of, [&](auto const& t, std::size_t elements) {
      return support::any_goes_over(of, of.on, t.chunk) ? fssdp::int8_codec::encoded_bytes(elements)
                                                        : elements * sizeof(fssdp::bf16);
    });
    for (std::size_t rank = 0; rank < costs.size(); ++rank) {
      REQUIRE(costs[rank].counts == support::gather_counts(of, expected[rank]));
      REQUIRE(costs[rank].copied == expected[rank].bytes_in);
    }
  });
}

TEST_CASE(
    "a coded reduction sends payloads over coded links and all else unchanged, and copies "
    "nothing") {
  support::for_coded_instances(support::some_instances, [](coded_instance const& of) {
    auto const costs = cost_of(of, [&](auto& comm) {
      auto mine = coded_buffers{of, comm.rank()};
      fssdp::sparse_reduce_scatter(comm, of.plan, mine.partials, mine.gradients,
                                   coded_links{fssdp::fp8_e5m2_codec{}, of.on});
    });
    auto const expected = expected_traffic(of, [&](auto const& t, std::size_t elements) {
      if (support::goes_over(of, of.on, t)) return fssdp::fp8_e5m2_codec::encoded_bytes(elements);
      return elements * (support::passes_on(of.plan, t) ? sizeof(float) : sizeof(fssdp::bf16));
    });
    for (std::size_t rank = 0; rank < costs.size(); ++rank) {
      REQUIRE(costs[rank].counts == support::reduction_counts(of, expected[rank]));
      REQUIRE(costs[rank].copied == 0);
    }
  });
}
