// SPDX-License-Identifier: Apache-2.0
/// Ranges are recorded from begin to end, by any thread, until the recorder is full.
#include "fssdp/trace/trace.hpp"

#include <algorithm>
#include <atomic>
#include <latch>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "fssdp/trace/trace_output.hpp"
#include "fssdp/trace/trace_recorder.hpp"
#include "support/allocation_counter.hpp"

using fssdp::compute_track;
using fssdp::gather_track;
using fssdp::rank_id;
using fssdp::trace_clock;
using fssdp::trace_event;
using fssdp::trace_range;
using fssdp::trace_recorder;

namespace {

/// A sink that only counts.
struct counting_sink {
  using open_range = int;
  int opened = 0;
  int closed = 0;
  int open(fssdp::traced_work const&) noexcept { return ++opened; }
  void close(int, fssdp::traced_work const&) noexcept { ++closed; }
};
static_assert(fssdp::trace_sink<counting_sink>);

}  // namespace

TEST_CASE("a range is recorded with its track, its name and its numbers") {
  auto trace = trace_recorder{{.rank = rank_id{5}, .capacity = 4}};
  auto const before = trace_clock::now();
  {
    auto range = trace.range(compute_track, "forward", {.layer = 3});
    REQUIRE(trace.events().empty());
    range.numbers().round = 7;
  }
  auto const after = trace_clock::now();
  REQUIRE(trace.rank() == rank_id{5});
  REQUIRE(trace.dropped() == 0);
  auto const events = trace.events();
  REQUIRE(events.size() == 1);
  auto const work = fssdp::traced_work{compute_track, "forward", {.layer = 3, .round = 7}};
  REQUIRE(events[0].work == work);
  REQUIRE(before <= events[0].begin);
  REQUIRE(events[0].begin <= events[0].end);
  REQUIRE(events[0].end <= after);
}

TEST_CASE("ranges of nested scopes nest, and those of scopes that follow follow") {
  auto trace = trace_recorder{{.capacity = 10}};
  {
    auto const outer = trace.range(compute_track, "outer");
    { auto const first = trace.range(compute_track, "first"); }
    { auto const second = trace.range(compute_track, "second"); }
  }
  auto const events = trace.events();
  REQUIRE(events.size() == 3);
  REQUIRE(events[0].work.name.view() == "outer");
  REQUIRE(events[1].work.name.view() == "first");
  REQUIRE(events[2].work.name.view() == "second");
  REQUIRE(events[1].end <= events[2].begin);
  REQUIRE(events[2].end <= events[0].end);
}

TEST_CASE("a range ends once: by its destructor, by end, or where it was moved to") {
  auto sink = counting_sink{};
  SECTION("by itself") {
    { auto const range = trace_range{&sink, compute_track, "work"}; }
    REQUIRE(sink.closed == 1);
  }
  SECTION("by end") {
    {
      auto range = trace_range{&sink, compute_track, "work"};
      range.end();
      REQUIRE(sink.closed == 1);
      range.end();
    }
    REQUIRE(sink.closed == 1);
  }
  SECTION("where it was moved to") {
    auto kept = std::optional<trace_range<counting_sink>>{};
    {
      auto range = trace_range{&sink, compute_track, "work"};
      kept.emplace(std::move(range));
    }
    REQUIRE(sink.closed == 0);
    kept.reset();
    REQUIRE(sink.closed == 1);
  }
  SECTION("when an exception passes") {
    auto const fails = [&] {
      auto const range = trace_range{&sink, compute_track, "work"};
      throw std::range_error{"mine"};
    };
    REQUIRE_THROWS_AS(fails(), std::range_error);
    REQUIRE(sink.closed == 1);
  }
  REQUIRE(sink.opened == 1);
}

TEST_CASE("without a sink nothing happens") {
  auto const none = trace_range{nullptr, compute_track, "work", {.layer = 1}};
  auto null = trace_range{static_cast<counting_sink*>(nullptr), compute_track, "work"};
  null.numbers().layer = 2;
  REQUIRE_NOTHROW(null.end());
}

TEST_CASE("a full recorder keeps the first events and counts the rest") {
  auto trace = trace_recorder{{.capacity = 3}};
  for (int layer = 0; layer < 8; ++layer)
    trace.range(compute_track, "forward", {.layer = layer}).end();
  auto const events = trace.events();
  REQUIRE(events.size() == 3);
  for (int layer = 0; layer < 3; ++layer)
    REQUIRE(events[static_cast<std::size_t>(layer)].work.numbers.layer == layer);
  REQUIRE(trace.dropped() == 5);
  trace.clear();
  REQUIRE(trace.events().empty());
  REQUIRE(trace.dropped() == 0);
  trace.range(compute_track, "again").end();
  REQUIRE(trace.events().size() == 1);
}

TEST_CASE("events are sorted by begin, and of equal begins the longer one comes first") {
  auto trace = trace_recorder{{.capacity = 4}};
  auto const at = [](int time) { return trace_clock::time_point{trace_clock::duration{time}}; };
  auto const add = [&](int begin, int end) {
    trace.record({.work = {}, .begin = at(begin), .end = at(end)});
  };
  add(5, 6);
  add(2, 3);
  add(2, 9);
  add(1, 1);
  auto times = std::vector<std::pair<int, int>>{};
  for (auto const& event : trace.events())
    times.emplace_back(event.begin.time_since_epoch().count(),
                       event.end.time_since_epoch().count());
  REQUIRE(times == std::vector<std::pair<int, int>>{{1, 1}, {2, 9}, {2, 3}, {5, 6}});
}

TEST_CASE("threads record at once, and a reader sees whole events only") {
  constexpr auto threads = 4;
  constexpr auto ranges = 2000;
  auto trace = trace_recorder{{.capacity = threads * ranges - 100}};
  auto broken = std::atomic<int>{0};
  auto begin = std::latch{threads + 1};
  auto team = std::vector<std::thread>{};
  for (int thread = 0; thread < threads; ++thread)
    team.emplace_back([&, thread] {
      begin.arrive_and_wait();
      for (int i = 0; i < ranges; ++i) {
        auto range = trace.range(gather_track, "gather", {.layer = i, .round = thread});
        range.numbers().bytes_sent = i * threads + thread;
      }
    });
  team.emplace_back([&] {
    begin.arrive_and_wait();
    for (int i = 0; i < 20; ++i)
      for (auto const& event : trace.events()) {
        auto const& of = event.work.numbers;
        if (of.bytes_sent != of.layer.value() * threads + of.round.value() ||
            event.end < event.begin || event.work.track != gather_track)
          ++broken;
      }
  });
  for (auto& thread : team) thread.join();
  REQUIRE(broken == 0);
  REQUIRE(trace.dropped() == 100);
  auto sums = std::vector<std::int64_t>{};
  for (auto const& event : trace.events()) sums.push_back(event.work.numbers.bytes_sent.value());
  REQUIRE(sums.size() == threads * ranges - 100);
  std::ranges::sort(sums);
  REQUIRE(std::ranges::adjacent_find(sums) == sums.end());  // none twice
}

TEST_CASE("recording does not allocate, full or not") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  auto numbers = std::vector<int>{};
  REQUIRE(support::allocations_in([&] { numbers.resize(10); }) == 1);  // the counter counts
  auto trace = trace_recorder{{.capacity = 50}};
  REQUIRE(support::allocations_in([&] {
            for (int i = 0; i < 100; ++i) {
              auto const outer = trace.range(compute_track, "forward", {.layer = i});
              auto const inner = trace_range{&trace, gather_track, "gather"};
            }
          }) == 0);
  REQUIRE(trace.dropped() == 150);
}

TEST_CASE("a recorder that moves takes its events along") {
  auto traces = std::vector<trace_recorder>{};
  for (int rank = 0; rank < 5; ++rank) {
    traces.emplace_back(fssdp::trace_options{.rank = rank_id{rank}, .capacity = 2});
    for (int i = 0; i < rank; ++i) traces.back().range(compute_track, "work").end();
  }
  for (std::size_t rank = 0; rank < 5; ++rank) {
    REQUIRE(traces[rank].rank() == rank_id{rank});
    REQUIRE(traces[rank].events().size() == std::min<std::size_t>(rank, 2));
    REQUIRE(traces[rank].dropped() == rank - std::min<std::size_t>(rank, 2));
  }
  auto const taken = std::move(traces[4]);
  traces[4].range(compute_track, "lost").end();  // NOLINT: has no room left
  REQUIRE(traces[4].events().empty());
  REQUIRE(taken.events().size() == 2);
}

TEST_CASE("a recorder without room, or with impossibly much, is refused") {
  REQUIRE_THROWS_WITH(trace_recorder{{.capacity = 0}},
                      mentions("a capacity of 0 events; expected 1"));
  REQUIRE_THROWS_AS(trace_recorder{{.capacity = static_cast<std::size_t>(-1)}},
                    fssdp::argument_error);
}

TEST_CASE("tracks and names are the same if their texts are") {
  REQUIRE(fssdp::trace_track{"gather"} == gather_track);
  REQUIRE(fssdp::trace_track{"gathe"} != gather_track);
  REQUIRE(gather_track.name.view() == std::string{gather_track.name.c_str()});
}

TEST_CASE("an output passes ranges on to the sink that it points to, and to none") {
  auto recorder = trace_recorder{{.capacity = 4}};
  auto counter = counting_sink{};
  auto const begin = trace_clock::now();
  for (auto const& output :
       {fssdp::trace_output{&recorder}, fssdp::trace_output{&counter}, fssdp::trace_output{},
        fssdp::trace_output{static_cast<trace_recorder*>(nullptr)}}) {
    auto range = trace_range{&output, gather_track, "gather", {.layer = 2}};
    range.numbers().plan = 9;
  }
  REQUIRE(counter.opened == 1);
  REQUIRE(counter.closed == 1);
  auto const events = recorder.events();
  REQUIRE(events.size() == 1);
  auto const work = fssdp::traced_work{gather_track, "gather", {.layer = 2, .plan = 9}};
  REQUIRE(events[0].work == work);
  REQUIRE(begin <= events[0].begin);
  REQUIRE(events[0].begin <= events[0].end);
}
