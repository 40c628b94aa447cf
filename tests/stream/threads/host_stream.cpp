// SPDX-License-Identifier: Apache-2.0
/// A host stream runs its work in order, on another thread, and loses no error.
#include "fssdp/stream/host_stream.hpp"

#include <latch>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "fssdp/stream/stream.hpp"

using fssdp::host_stream;

TEST_CASE("work runs in order, in one other thread") {
  auto stream = host_stream{};
  auto order = std::vector<int>{};
  auto threads = std::vector<std::thread::id>{};
  for (int i = 0; i < 200; ++i)  // more than the queue holds: enqueue waits for room
    stream.enqueue([&, i] {
      order.push_back(i);
      threads.push_back(std::this_thread::get_id());
    });
  stream.synchronize();
  auto expected = std::vector<int>{};
  for (int i = 0; i < 200; ++i) expected.push_back(i);
  REQUIRE(order == expected);
  REQUIRE(threads.front() != std::this_thread::get_id());
  REQUIRE(threads == std::vector(200, threads.front()));
}

TEST_CASE("enqueue returns before the work has run") {
  auto stream = host_stream{};
  auto gate = std::latch{1};
  auto ran = false;
  stream.enqueue([&] {
    gate.wait();
    ran = true;
  });
  gate.count_down();  // reached only because enqueue did not wait
  stream.synchronize();
  REQUIRE(ran);
}

TEST_CASE("synchronize with nothing to do returns") {
  auto stream = host_stream{};
  REQUIRE_NOTHROW(stream.synchronize());
}

TEST_CASE("work may own what cannot be copied, and drops it once it has run") {
  auto stream = host_stream{};
  auto owned = std::make_shared<int>(5);
  auto const watch = std::weak_ptr{owned};
  auto seen = 0;
  stream.enqueue(
      [&seen, mine = std::make_unique<std::shared_ptr<int>>(std::move(owned))] { seen = **mine; });
  stream.synchronize();
  REQUIRE(seen == 5);
  REQUIRE(watch.expired());
}

TEST_CASE("the first exception poisons a stream") {
  auto stream = host_stream{};
  auto gate = std::latch{1};
  auto ran_behind = false;
  stream.enqueue([&] {
    gate.wait();
    throw std::range_error{"first"};
  });
  stream.enqueue([&] { ran_behind = true; });
  gate.count_down();
  REQUIRE_THROWS_WITH(stream.synchronize(), "first");
  REQUIRE(!ran_behind);
  SECTION("synchronize throws it again each time") {
    REQUIRE_THROWS_AS(stream.synchronize(), std::range_error);
  }
  SECTION("enqueue refuses and says what has failed") {
    REQUIRE_THROWS_AS(stream.enqueue([&] { ran_behind = true; }), fssdp::poisoned_stream);
    REQUIRE_THROWS_WITH(stream.enqueue([&] { ran_behind = true; }), mentions("first"));
    REQUIRE_THROWS_AS(stream.synchronize(), std::range_error);
    REQUIRE(!ran_behind);
  }
}

TEST_CASE("a stream that is destroyed finishes the work in progress and drops the rest") {
  auto begun = std::latch{1};
  auto gate = std::latch{1};
  auto ended = false;
  auto dropped = std::make_shared<int>(0);
  auto const watch = std::weak_ptr{dropped};
  auto helper = std::thread{};
  {
    auto stream = host_stream{};
    stream.enqueue([&] {
      begun.count_down();
      gate.wait();
      ended = true;
    });
    stream.enqueue([kept = std::move(dropped)] { ++*kept; });
    begun.wait();
    helper = std::thread{[&] { gate.count_down(); }};
  }
  REQUIRE(ended);
  REQUIRE(watch.expired());
  helper.join();
}

TEST_CASE("an inline stream runs everything at once, in the caller") {
  auto const stream = fssdp::inline_stream{};
  auto where = std::thread::id{};
  stream.enqueue([&] { where = std::this_thread::get_id(); });
  REQUIRE(where == std::this_thread::get_id());
  REQUIRE_NOTHROW(stream.synchronize());
  REQUIRE_THROWS_WITH(stream.enqueue([] { throw std::range_error{"mine"}; }), "mine");
}
