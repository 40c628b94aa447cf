// SPDX-License-Identifier: Apache-2.0
/// A cache of schedules gives what schedule gives, and keeps what was used last.
#include "fssdp/plan/schedule_cache.hpp"

#include <thread>
#include <vector>

#include "catch.hpp"
#include "support/laws.hpp"

using support::random_instance;

namespace {

constexpr auto instances = support::law_instances / 20 + 1;

}  // namespace

TEST_CASE("what a cache gives is the schedule, made once") {
  support::for_random_instances(instances, [](random_instance const& of) {
    auto cache = fssdp::schedule_cache{4};
    auto const plan = make_plan(of.layout, of.where, of.topo);
    auto const first = cache(plan, 5000, {.piece_bytes = 2000});
    REQUIRE(*first == schedule(plan, 5000, {.piece_bytes = 2000}));
    REQUIRE(cache(plan, 5000, {.piece_bytes = 2000}) == first);
    REQUIRE(cache.size() == 1);
  });
}

TEST_CASE("whatever differs is another entry") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 4}};
  auto const where = fssdp::everywhere{}(layout);
  auto const two = fssdp::topology{{.nodes = 2, .ranks = 4}};
  auto const slow =
      fssdp::topology{{.nodes = 2, .ranks = 4, .ports = {.between_bytes_per_second = 1e9}}};
  auto cache = fssdp::schedule_cache{8};
  auto const plan = make_plan(layout, where, two);
  auto const base = cache(plan, 1000000);
  REQUIRE(cache(plan, 1000001) != base);
  REQUIRE(cache(plan, 1000000, {.effort = 0}) != base);
  REQUIRE(cache(make_plan(layout, where, slow), 1000000) != base);
  REQUIRE(cache(make_plan(layout, fssdp::placement{layout}, two), 1000000) != base);
  REQUIRE(cache.size() == 5);
  REQUIRE(cache(plan, 1000000) == base);
}

TEST_CASE("a full cache forgets what was not used for longest") {
  auto const layout = fssdp::block_layout{{.experts = 2, .ranks = 2}};
  auto const plan = make_plan(layout, fssdp::everywhere{}(layout));
  auto cache = fssdp::schedule_cache{2};
  auto const one = cache(plan, 1);
  auto const two = cache(plan, 2);
  REQUIRE(cache(plan, 1) == one);
  auto const three = cache(plan, 3);  // in place of two
  REQUIRE(cache(plan, 1) == one);
  REQUIRE(cache(plan, 3) == three);
  REQUIRE(cache(plan, 2) != two);
  REQUIRE(*cache(plan, 2) == *two);
  REQUIRE(cache.size() == 2);
  REQUIRE_THROWS_AS(fssdp::schedule_cache{0}, fssdp::argument_error);
}

TEST_CASE("threads share a cache") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 4}};
  auto const plan = make_plan(layout, fssdp::everywhere{}(layout));
  auto cache = fssdp::schedule_cache{3};
  auto wrong = std::vector<int>(4);
  auto threads = std::vector<std::jthread>{};
  for (std::size_t me = 0; me < wrong.size(); ++me)
    threads.emplace_back([&, me] {
      for (std::size_t i = 0; i < 50; ++i) {
        auto const bytes = 1000 + (i + me) % 5;
        wrong[me] += *cache(plan, bytes) == schedule(plan, bytes) ? 0 : 1;
      }
    });
  threads.clear();
  REQUIRE(wrong == std::vector<int>(4));
}
