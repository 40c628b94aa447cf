// SPDX-License-Identifier: Apache-2.0
/// The predicted bytes equal the counted ones.
#include "fssdp/collective/wire_bytes.hpp"

#include <cstdint>

#include "catch.hpp"
#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/codec/fp8_e5m2_codec.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/coded_instance.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/rank_buffers.hpp"

using fssdp::coded_links;
using fssdp::thread_communicator;
using fssdp::uncoded;
using fssdp::wire_bytes;
using support::coded_instance;

namespace {

/// The bytes that all ranks send in a collective.
template <class Collective>
[[nodiscard]] std::uint64_t sent(coded_instance const& of, Collective collective) {
  auto const of_rank = support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
    auto counted = fssdp::counting{comm};
    auto mine = support::rank_buffers<fssdp::bf16, float>{of, comm.rank()};
    collective(counted, mine);
    return counted.counts().bytes_sent;
  });
  auto sum = std::uint64_t{0};
  for (auto const bytes : of_rank) sum += bytes;
  return sum;
}

}  // namespace

TEST_CASE("bytes that a plan moves, with and without a codec, are those that ranks send") {
  support::for_coded_instances(support::law_instances / 50 + 10, [](coded_instance const& of) {
    auto const law = [&](auto const& gather, auto const& reduce) {
      auto const gathered = fssdp::gathered_bytes<fssdp::bf16>(of.plan, of.elements, gather);
      auto const reduced = fssdp::reduced_bytes<fssdp::bf16>(of.plan, of.elements, reduce);
      REQUIRE(gathered.total() == sent(of, [&](auto& comm, auto& mine) {
                fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.in_one_piece, gather);
              }));
      REQUIRE(reduced.total() == sent(of, [&](auto& comm, auto& mine) {
                fssdp::sparse_reduce_scatter(comm, of.plan, mine.partials, mine.gradients, reduce);
              }));
      if (of.topo.nodes() == 1) REQUIRE(gathered.between_nodes + reduced.between_nodes == 0);
    };
    law(uncoded{}, uncoded{});
    law(coded_links{fssdp::int8_codec{}, of.on}, coded_links{fssdp::fp8_e5m2_codec{}, of.on});
  });
}

TEST_CASE("bytes between nodes and inside nodes are counted separately") {
  auto const layout = fssdp::block_layout{{.experts = 3, .ranks = 3}};
  auto const topo = fssdp::topology{{.nodes = 2, .ranks = 3}};  // ranks 0 and 1, rank 2
  auto where = fssdp::placement{layout};
  where.add(fssdp::expert_id{0}, fssdp::rank_id{1});
  where.add(fssdp::expert_id{1}, fssdp::rank_id{2});
  auto const plan = make_plan(layout, where, topo);
  auto const elements = std::array<std::size_t, 2>{100, 3};
  REQUIRE(fssdp::gathered_bytes<float>(plan, elements) == wire_bytes{412, 412});
  REQUIRE(fssdp::reduced_bytes<fssdp::bf16>(plan, elements) == wire_bytes{206, 206});
  REQUIRE(fssdp::gathered_bytes<float>(plan, elements, coded_links{fssdp::bf16_codec{}}) ==
          wire_bytes{412, 206});
}
