// SPDX-License-Identifier: Apache-2.0
/// The transfer and the uneven blocks of the README of include/fssdp.
#include <cstddef>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_gather_v.hpp"
#include "fssdp/collective/transfer_between.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/cyclic_layout.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/placement/placement.hpp"
#include "fssdp/plan/distribution.hpp"
#include "fssdp/plan/redistribution.hpp"
#include "fssdp/plan/uneven_plan.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::rank_id;

TEST_CASE("the transfer of the guide brings a trainer's shards to an engine's replicas") {
  auto const trainer_layout = fssdp::block_layout{{.experts = 6, .ranks = 3, .slices = 3}};
  auto const trainer_ranks = std::vector{rank_id{0}, rank_id{1}, rank_id{2}};
  auto engine_placement = fssdp::placement{fssdp::cyclic_layout{{.experts = 6, .ranks = 2}}};
  engine_placement.add(fssdp::expert_id{1}, rank_id{0});
  auto const engine_ranks = std::vector{rank_id{3}, rank_id{4}};
  auto const sizes = std::vector<std::size_t>{12};
  auto const topology = fssdp::topology{{.nodes = 2, .ranks = 5}};
  auto const wrong = support::on_all_ranks(5, [&](fssdp::thread_communicator& comm) {
    auto const elements_of = [](fssdp::chunk_id chunk, std::size_t i, std::size_t slices) {
      return static_cast<float>(100 * chunk.expert.value()) +
             static_cast<float>(chunk.slice.index() * 12 / slices + i);
    };
    auto const all_ranks = comm.size();
    auto const owned = fssdp::distribution{trainer_layout}.on(trainer_ranks, all_ranks);
    auto const held = fssdp::distribution{engine_placement}.on(engine_ranks, all_ranks);
    auto shards = fssdp::expert_buffer<float>{owned.slots(comm.rank()).size(), std::vector{4UL}};
    auto replicas =
        fssdp::expert_buffer<fssdp::bf16>{held.slots(comm.rank()).size(), std::vector{12UL}};
    for (std::size_t slot = 0; auto const chunk : owned.slots(comm.rank())) {
      for (std::size_t i = 0; i < 4; ++i) shards.tensors()[0][slot][i] = elements_of(chunk, i, 3);
      ++slot;
    }
#include "guides/include/fssdp/README.md/1.inc"
    auto errors = plan.bound_seconds() <= plan.simulated_seconds() ? 0 : 1;
    for (std::size_t slot = 0; auto const chunk : held.slots(comm.rank())) {
      for (std::size_t i = 0; i < 12; ++i)
        errors += static_cast<float>(replicas.tensors()[0][slot][i]) ==
                          static_cast<float>(fssdp::bf16{elements_of(chunk, i, 1)})
                      ? 0
                      : 1;
      ++slot;
    }
    return errors;
  });
  REQUIRE(wrong == std::vector<int>(5));
}

TEST_CASE("the uneven blocks of the guide are gathered, and their sums are at the owners") {
  auto const counts = std::vector<std::size_t>{3, 0, 5};
  auto const topology = fssdp::topology{{.ranks = 3}};
  auto const wrong = support::on_all_ranks(3, [&](fssdp::thread_communicator& comm) {
    auto const owned = counts[comm.rank().index()];
    auto mine = std::vector<float>(owned, static_cast<float>(comm.rank().value() + 1));
    auto whole = std::vector<float>(8);
    auto const partials = std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8};
#include "guides/include/fssdp/README.md/2.inc"
    auto const gathered = std::vector<float>{1, 1, 1, 3, 3, 3, 3, 3};
    auto const first = comm.rank().value() == 0 ? 0U : 3U;
    auto errors = whole == gathered ? 0 : 1;
    for (std::size_t i = 0; i < owned; ++i) errors += mine[i] == 3 * partials[first + i] ? 0 : 1;
    return errors;
  });
  REQUIRE(wrong == std::vector<int>(3));
}
