// SPDX-License-Identifier: Apache-2.0
/// Waiting for one piece of work in a queue.
#include "fssdp/stream/stream_event.hpp"

#include <atomic>
#include <stdexcept>
#include <utility>

#include "catch.hpp"
#include "fssdp/stream/host_stream.hpp"

using fssdp::host_stream;
using fssdp::stream_event;

TEST_CASE("without a mark a wait returns at once") {
  auto event = stream_event{};
  REQUIRE(event.is_over());
  REQUIRE(event.wait());
}

TEST_CASE("a wait ends when the mark is reached, not when the queue is empty") {
  auto gate = std::atomic{false};
  auto event = stream_event{};
  auto value = 0;
  {
    auto stream = host_stream{};
    for (int turn = 1; turn <= 3; ++turn) {
      gate = false;
      stream.enqueue([&, turn] { value = turn; });
      stream.enqueue([mark = event.next()]() mutable { mark.reach(); });
      stream.enqueue([&] { gate.wait(false); });  // after the mark
      auto const reached = event.wait();
      auto const seen = value;
      gate = true;
      gate.notify_all();
      stream.synchronize();
      REQUIRE(reached);
      REQUIRE(event.is_over());
      REQUIRE(seen == turn);
    }
  }
}

TEST_CASE("a mark that is dropped ends the wait, and says so") {
  auto event = stream_event{};
  {
    auto stream = host_stream{};
    stream.enqueue([] { throw std::runtime_error{"broken"}; });
    try {
      stream.enqueue([mark = event.next()]() mutable { mark.reach(); });
    } catch (fssdp::poisoned_stream const&) {  // it was quicker
    }
    REQUIRE_FALSE(event.wait());
    REQUIRE_THROWS_WITH(stream.synchronize(), "broken");
  }
  event.next().reach();
  REQUIRE(event.wait());
  { auto const dropped = event.next(); }
  REQUIRE_FALSE(event.wait());
}
