// SPDX-License-Identifier: Apache-2.0
/// A cache of plans gives what its planner gives, and keeps what was used last.
#include "fssdp/plan/plan_cache.hpp"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "support/laws.hpp"

using support::random_instance;

namespace {

constexpr auto instances = support::law_instances / 20 + 1;

/// A request that owns what it refers to.
struct scene {
  fssdp::table_layout layout = fssdp::as_table(fssdp::block_layout{{.experts = 4, .ranks = 4}});
  fssdp::placement where = fssdp::everywhere{}(layout);
  fssdp::topology topo = fssdp::topology{{.nodes = 2, .ranks = 4}};

  [[nodiscard]] fssdp::plan_request request(
      std::size_t bytes, std::optional<fssdp::schedule_options> schedule = {}) const {
    return {layout, where, topo, bytes, schedule};
  }
};

/// A planner that counts.
struct counted_planner {
  std::atomic<int>* calls;
  fssdp::transfer_plan operator()(fssdp::plan_request const& of) const {
    ++*calls;
    return fssdp::make_requested_plan(of);
  }
};

}  // namespace

TEST_CASE("a cache returns the plan that was made once") {
  support::for_random_instances(instances, [](random_instance const& of) {
    auto calls = std::atomic<int>{0};
    auto cache = fssdp::plan_cache{4, counted_planner{&calls}};
    auto const layout = fssdp::as_table(of.layout);
    auto const plain = fssdp::plan_request{layout, of.where, of.topo, 5000, {}};
    auto const cut = fssdp::plan_request{layout, of.where, of.topo, 5000,
                                         fssdp::schedule_options{.piece_bytes = 2000}};
    auto const plan = make_plan(layout, of.where, of.topo);
    REQUIRE(cache(plain) == plan);
    REQUIRE(cache(cut) == schedule(plan, 5000, {.piece_bytes = 2000}));
    REQUIRE(cache(plain) == plan);
    REQUIRE(cache(cut) == schedule(plan, 5000, {.piece_bytes = 2000}));
    REQUIRE(calls == 2);
    REQUIRE(cache.size() == 2);
  });
}

TEST_CASE("any difference in a request gives another plan") {
  auto calls = std::atomic<int>{0};
  auto cache = fssdp::plan_cache{8, counted_planner{&calls}};
  auto const base = scene{};
  auto slow = scene{};
  slow.topo = fssdp::topology{{.nodes = 2, .ranks = 4, .ports = {.between_bytes_per_second = 1e9}}};
  auto bare = scene{};
  bare.where = fssdp::placement{bare.layout};
  auto moved = scene{};
  moved.layout = fssdp::as_table(fssdp::cyclic_layout{{.experts = 4, .ranks = 4, .slices = 2}});
  moved.where = fssdp::everywhere{}(moved.layout);
  for (int twice = 0; twice < 2; ++twice) {
    (void)cache(base.request(1000000));
    (void)cache(base.request(1000001));
    (void)cache(base.request(1000000, fssdp::schedule_options{}));
    (void)cache(base.request(1000000, fssdp::schedule_options{.effort = 0}));
    (void)cache(slow.request(1000000));
    (void)cache(bare.request(1000000));
    (void)cache(moved.request(1000000));
    REQUIRE(calls == 7);
  }
  REQUIRE(cache.size() == 7);
}

TEST_CASE("a full cache forgets what was not used for longest") {
  auto calls = std::atomic<int>{0};
  auto cache = fssdp::plan_cache{2, counted_planner{&calls}};
  auto const of = scene{};
  (void)cache(of.request(1));
  (void)cache(of.request(2));
  (void)cache(of.request(1));
  REQUIRE(calls == 2);
  (void)cache(of.request(3));  // in place of 2
  (void)cache(of.request(1));
  (void)cache(of.request(3));
  REQUIRE(calls == 3);
  (void)cache(of.request(2));
  REQUIRE(calls == 4);
  REQUIRE(cache.size() == 2);
  REQUIRE_THROWS_AS(fssdp::plan_cache{0}, fssdp::argument_error);
}

TEST_CASE("threads that ask for the same plan at once cause one call of the planner") {
  auto calls = std::atomic<int>{0};
  auto cache = fssdp::plan_cache{5, counted_planner{&calls}};
  auto const of = scene{};
  auto wrong = std::vector<int>(4);
  auto threads = std::vector<std::jthread>{};
  for (std::size_t me = 0; me < wrong.size(); ++me)
    threads.emplace_back([&, me] {
      for (std::size_t i = 0; i < 50; ++i) {
        auto const request = of.request(1000 + (i + me) % 5, fssdp::schedule_options{});
        wrong[me] += cache(request) == fssdp::make_requested_plan(request) ? 0 : 1;
      }
    });
  threads.clear();
  REQUIRE(wrong == std::vector<int>(4));
  REQUIRE(calls == 5);
}

TEST_CASE("a planner that throws leaves no entry, and waiting threads ask again") {
  auto calls = std::atomic<int>{0};
  auto cache = fssdp::plan_cache{2, [&](fssdp::plan_request const& of) {
                                   if (++calls <= 3) throw std::runtime_error{"not yet"};
                                   return fssdp::make_requested_plan(of);
                                 }};
  auto const of = scene{};
  auto refused = std::atomic<int>{0};
  auto threads = std::vector<std::jthread>{};
  for (int n = 0; n < 4; ++n)
    threads.emplace_back([&] {
      try {
        (void)cache(of.request(1));
      } catch (std::runtime_error const&) {
        ++refused;
      }
    });
  threads.clear();
  REQUIRE(refused == 3);
  REQUIRE(calls == 4);
  REQUIRE(cache.size() == 1);
}
