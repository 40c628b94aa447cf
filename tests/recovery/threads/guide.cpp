// SPDX-License-Identifier: Apache-2.0
/// The program of the README of include/fssdp/recovery runs.
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/layout/table_layout.hpp"
#include "fssdp/memory/bytes_of.hpp"
#include "fssdp/recovery/mirrored_shard.hpp"
#include "fssdp/recovery/recover.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::rank_id;

namespace {

/// What is left at the end of the program: the ranks, and how many values are wrong.
struct outcome {
  std::size_t ranks = 0;
  int wrong = 0;
};

/// Rank `unlucky` is lost after some steps.
[[nodiscard]] outcome train(fssdp::thread_communicator& comm, fssdp::table_layout layout,
                            fssdp::topology const& topology, rank_id unlucky, std::uint64_t steps) {
  auto const me = comm.rank();
  auto weights = fssdp::make_shard<float>(layout, me, 10);
  auto moments = fssdp::make_shard<float>(layout, me, 10);
  auto owned = me;  // the rank as the layout numbers it
  auto const forward_and_backward = [&](fssdp::thread_communicator& all,
                                        fssdp::table_layout const&) {
    owned = all.rank();
    if (me == unlucky && moments.tensors()[0][0][0] >= 400) throw fssdp::error{"lost"};
    (void)fssdp::all_reduce(all, std::array{1L});
  };
  auto const optimizer = [&](std::uint64_t step) {
    for (std::size_t slot = 0; auto const chunk : layout.owned(owned)) {
      for (auto& weight : weights.tensors()[0][slot])
        weight += static_cast<float>(1 + 100 * (step == 1 ? chunk.expert.value() : 0));
      for (auto& moment : moments.tensors()[0][slot])
        moment = static_cast<float>(step * 100) + static_cast<float>(chunk.expert.value());
      ++slot;
    }
  };
#include "guides/include/fssdp/recovery/README.md/1.inc"
  auto result = outcome{left.ranks().size(), 0};
  for (std::size_t slot = 0; auto const chunk : layout.owned(left.comm().rank())) {
    auto const expert = static_cast<float>(chunk.expert.value());
    for (auto const weight : weights.tensors()[0][slot])
      result.wrong += weight == static_cast<float>(steps) + 100 * expert ? 0 : 1;
    for (auto const moment : moments.tensors()[0][slot])
      result.wrong += moment == static_cast<float>(steps * 100) + expert ? 0 : 1;
    ++slot;
  }
  return result;
}

}  // namespace

TEST_CASE("the program of the README trains to the end, whichever rank is lost") {
  auto owners = std::vector<rank_id>{};
  for (int expert = 0; expert < 8; ++expert) owners.emplace_back(expert % 4);
  auto const layout = fssdp::table_layout{{.ranks = 4}, owners};
  auto const topology = fssdp::topology{{.nodes = 2, .ranks = 4}};
  for (auto const unlucky : {-1, 0, 1, 2, 3}) {
    CAPTURE(unlucky);
    auto all = std::vector<outcome>(4);
    auto world = fssdp::thread_world{4};
    world.run([&](fssdp::thread_communicator& comm) {
      all[comm.rank().index()] = train(comm, layout, topology, rank_id{unlucky}, 9);
    });
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == unlucky) continue;
      CHECK(all[static_cast<std::size_t>(rank)].ranks == (unlucky < 0 ? 4U : 3U));
      CHECK(all[static_cast<std::size_t>(rank)].wrong == 0);
    }
  }
}
