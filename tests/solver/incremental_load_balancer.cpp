// SPDX-License-Identifier: Apache-2.0
/// Maps that change as few slots as the wanted balance allows.
#include "fssdp/solver/incremental_load_balancer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "fssdp/solver/expert_load_balancer.hpp"
#include "support/dice.hpp"

using fssdp::balance_of;
using fssdp::changed_slots;
using fssdp::expert_id;
using fssdp::incremental_load_balancer;
using fssdp::physical_experts;
using fssdp::rank_id;

namespace {

struct random_map {
  int experts;
  int ranks;
  int slots;
  std::vector<std::uint64_t> loads;
  physical_experts before;

  explicit random_map(std::uint64_t seed) : random_map{support::dice{seed}} {}

 private:
  explicit random_map(support::dice draw)
      : experts{draw.between(1, 24)},
        ranks{draw.between(1, 8)},
        slots{(experts + ranks - 1) / ranks + draw.between(0, 3)},
        loads{some_loads(draw, experts)},
        before{{experts, ranks}, some_slots(draw, experts, ranks * slots)} {}
  static std::vector<std::uint64_t> some_loads(support::dice& draw, int experts) {
    auto loads = std::vector<std::uint64_t>(static_cast<std::size_t>(experts));
    auto const most = draw.chance(20) ? 0 : draw.chance(50) ? 10 : 100'000;
    for (auto& load : loads) load = static_cast<std::uint64_t>(draw.between(0, most));
    if (most != 0 && draw.chance(30)) loads[0] = 1'000'000;
    return loads;
  }
  static std::vector<expert_id> some_slots(support::dice& draw, int experts, int count) {
    auto slots = std::vector<expert_id>{};
    for (int slot = 0; slot < count; ++slot)
      slots.push_back(expert_id{slot < experts ? slot : draw.between(0, experts - 1)});
    draw.shuffle(slots);
    return slots;
  }
};

/// The fullest rank over the mean, by loops.
[[nodiscard]] double naive_balance(physical_experts const& map,
                                   std::vector<std::uint64_t> const& loads) {
  auto sum = 0.0;
  auto fullest = 0.0;
  for (auto const load : loads) sum += static_cast<double>(load);
  for (auto const rank : fssdp::first_n<rank_id>(map.ranks())) {
    auto of_rank = 0.0;
    for (auto const expert : map.on(rank))
      of_rank += static_cast<double>(loads[expert.index()]) / map.logical_count(expert);
    fullest = std::max(fullest, of_rank);
  }
  return sum == 0 ? 1.0 : fullest * map.ranks() / sum;
}

/// Loads of which a few have most, at a time: they drift.
[[nodiscard]] std::vector<std::uint64_t> drifting_loads(std::size_t experts, std::uint64_t time) {
  auto loads = std::vector<std::uint64_t>(experts);
  for (std::size_t e = 0; e < experts; ++e) {
    auto draw = support::dice{1000 * e + time / 4};
    loads[e] =
        100'000 / (1 + (e * 7) % experts) + static_cast<std::uint64_t>(draw.between(0, 4000));
  }
  return loads;
}

}  // namespace

TEST_CASE("a map is never worse, and no more slots change than may", "[solver]") {
  for (std::uint64_t seed = 0; seed < FSSDP_LAW_INSTANCES; ++seed) {
    auto const of = random_map{seed};
    INFO("seed " << seed);
    auto last = naive_balance(of.before, of.loads);
    CHECK(balance_of(of.before, of.loads) == Approx(last));
    for (auto const most : {0, 1, 2, 5, 1000}) {
      auto const next =
          incremental_load_balancer{.balance = 1, .most_changes = most}(of.before, of.loads);
      CHECK(next.experts() == of.experts);  // each has a slot: physical_experts ensures it
      CHECK(changed_slots(of.before, next) <= most);
      auto const balance = naive_balance(next, of.loads);
      CHECK(balance <= naive_balance(of.before, of.loads) + 1e-9);
      if (most >= 1000) {
        auto const fresh =
            fssdp::expert_load_balancer{.replicas = of.ranks * of.slots,
                                        .topology = fssdp::topology{{.ranks = of.ranks}}}(of.loads);
        CHECK(balance <= naive_balance(fresh, of.loads) + 1e-9);
      }
      CHECK(next ==
            incremental_load_balancer{.balance = 1, .most_changes = most}(of.before, of.loads));
    }
  }
}

TEST_CASE("nothing changes where the balance is good enough", "[solver]") {
  auto const map = physical_experts{{2, 2}, {expert_id{0}, expert_id{1}}};
  auto const loads = std::vector<std::uint64_t>{110, 90};
  CHECK(balance_of(map, loads) == Approx(1.1));
  CHECK(incremental_load_balancer{.balance = 1.1}(map, loads) == map);
  CHECK(incremental_load_balancer{}(map, std::vector<std::uint64_t>{0, 0}) == map);
}

TEST_CASE("one slot that becomes a replica of the busiest expert is the smallest change",
          "[solver]") {
  auto const slots = std::vector{expert_id{0}, expert_id{1}, expert_id{2}, expert_id{1}};
  auto const map = physical_experts{{3, 2}, slots};  // 0 1 | 2 1
  auto const loads = std::vector<std::uint64_t>{80, 0, 20};
  auto const next = incremental_load_balancer{}(map, loads);
  CHECK(changed_slots(map, next) == 1);  // 0 1 | 2 0: 40 and 60
  CHECK(next.logical_count(expert_id{0}) == 2);
  CHECK(balance_of(next, loads) == Approx(1.2));
}

TEST_CASE("drifting loads are followed with a part of the changes of a new map, as well balanced",
          "[solver]") {
  auto const topo = fssdp::topology{{.nodes = 2, .ranks = 16}};
  auto const eplb = fssdp::expert_load_balancer{.replicas = 80, .topology = topo};
  auto map = eplb(drifting_loads(64, 0));
  auto made_new = map;
  auto changed = 0;
  auto changed_new = 0;
  auto balance = 0.0;
  auto balance_new = 0.0;
  for (std::uint64_t time = 4; time < 80; time += 4) {
    auto const loads = drifting_loads(64, time);
    auto const next = incremental_load_balancer{.balance = 1.01, .topology = topo}(map, loads);
    auto const fresh = eplb(loads);
    changed += changed_slots(map, next);
    changed_new += changed_slots(made_new, fresh);
    balance += balance_of(next, loads);
    balance_new += balance_of(fresh, loads);
    map = next;
    made_new = fresh;
  }
  CHECK(balance <= balance_new);
  CHECK(2 * changed < changed_new);
}

TEST_CASE("groups of experts stay on their nodes", "[solver]") {
  auto const topo = fssdp::topology{{.nodes = 2, .ranks = 4}};
  auto const eplb = fssdp::expert_load_balancer{.replicas = 12, .groups = 2, .topology = topo};
  auto const before = eplb(std::vector<std::uint64_t>{9, 1, 1, 1, 1, 1, 1, 1});
  auto const loads = std::vector<std::uint64_t>{1, 1, 1, 9, 1, 1, 1, 9};
  auto const next = incremental_load_balancer{.groups = 2, .topology = topo}(before, loads);
  for (auto const rank : fssdp::first_n<rank_id>(4))
    for (auto const expert : next.on(rank)) {
      auto const first = next.rank_of(next.logical_to_physical(expert).front());
      CHECK(topo.same_node(first, rank));
    }
  CHECK(balance_of(next, loads) < balance_of(before, loads));
}

TEST_CASE("arguments that do not fit a map are refused", "[solver]") {
  auto const map = physical_experts{{2, 2}, {expert_id{0}, expert_id{1}}};
  auto const one = std::vector<std::uint64_t>{1};
  auto const two = std::vector<std::uint64_t>{1, 2};
  CHECK_THROWS_WITH(incremental_load_balancer{}(map, one),
                    "incremental_load_balancer: 1 loads; expected 2, one for each expert");
  CHECK_THROWS_WITH(incremental_load_balancer{.balance = 0.5}(map, two),
                    "incremental_load_balancer: balance is 0.5; expected 1 or more");
  CHECK_THROWS_WITH(incremental_load_balancer{.most_changes = -1}(map, two),
                    "incremental_load_balancer: most_changes is -1; expected 0 or more");
  CHECK_THROWS_AS(balance_of(map, one), fssdp::argument_error);
  auto const other = physical_experts{{2, 1}, {expert_id{0}, expert_id{1}}};
  CHECK_THROWS_AS(changed_slots(map, other), fssdp::argument_error);
}
