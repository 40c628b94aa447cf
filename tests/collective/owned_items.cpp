// SPDX-License-Identifier: Apache-2.0
/// Items of several sizes move to the owners that are planned for them, one size after the other.
#include <map>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/reshard.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/plan/reshard_plan.hpp"
#include "fssdp/solver/ownership_planner.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::item_id;
using fssdp::ownership_plan;
using fssdp::rank_id;

namespace {

/// The items of each size: [elements] of [items].
[[nodiscard]] std::map<std::size_t, std::vector<item_id>> by_size(
    std::vector<fssdp::owned_item> const& items) {
  auto sets = std::map<std::size_t, std::vector<item_id>>{};
  for (std::size_t i = 0; i < items.size(); ++i)
    sets[items[i].bytes / sizeof(float)].emplace_back(i);
  return sets;
}

/// What element i of an item is.
[[nodiscard]] float value(item_id item, std::size_t i) {
  return static_cast<float>(1000 * item.value()) + static_cast<float>(i);
}

/// Moves the items of one size, all with their values; how many elements are wrong afterwards.
[[nodiscard]] int wrong_after_move(fssdp::thread_communicator& comm, std::size_t elements,
                                   std::vector<item_id> const& items,
                                   fssdp::table_layout const& from, fssdp::table_layout const& to) {
  auto const move = fssdp::reshard_plan{from, to};
  auto shard = fssdp::expert_buffer<float>{move.slots(comm.rank()), std::vector{elements}};
  auto const each = [&](fssdp::table_layout const& layout, auto see) {
    for (auto const chunk : layout.owned(comm.rank()))
      for (std::size_t i = 0; i < elements; ++i)
        see(shard.tensors()[0][static_cast<std::size_t>(layout.slot(chunk))][i],
            value(items[chunk.expert.index()], i));
  };
  each(from, [](float& element, float expected) { element = expected; });
  fssdp::reshard(comm, move, shard);
  auto wrong = 0;
  each(to, [&](float& element, float expected) { wrong += element != expected; });
  return wrong;
}

}  // namespace

TEST_CASE("items of several sizes move to planned owners, a reshard for each size") {
  constexpr auto ranks = 4;
  auto items = std::vector<fssdp::owned_item>{};
  auto before = std::vector<rank_id>{};
  for (int i = 0; i < 24; ++i) {
    items.push_back({.bytes = (i % 3 == 0 ? 64U : i % 3 == 1 ? 16U : 5U) * sizeof(float)});
    before.emplace_back(i % 2);  // half of the ranks have nothing
  }
  auto const topo = fssdp::topology{{.nodes = 2, .ranks = ranks}};
  auto const plan = fssdp::ownership_planner{}(items, topo, {}, before);
  REQUIRE(plan.moved_items > 0);
  auto const wrong = support::on_all_ranks(ranks, [&](fssdp::thread_communicator& comm) {
    auto count = 0;
    for (auto const& [elements, of_size] : by_size(items))
      count += wrong_after_move(comm, elements, of_size,
                                ownership_plan::layout_of(before, of_size, ranks),
                                plan.layout_of(of_size));
    return count;
  });
  REQUIRE(wrong == std::vector<int>(ranks, 0));
}
