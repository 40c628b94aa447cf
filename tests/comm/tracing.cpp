// SPDX-License-Identifier: Apache-2.0
/// The tracing adaptor records every exchange with what it moves, and changes nothing.
#include "fssdp/comm/tracing.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_gather.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/faulty.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/trace/trace_recorder.hpp"
#include "support/communicator_archetype.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/rank_buffers.hpp"
#include "support/scheduled_plan.hpp"

using fssdp::exchange_counts;
using fssdp::gather_track;
using fssdp::rank_id;
using fssdp::reduce_track;
using fssdp::thread_communicator;
using fssdp::trace_event;
using fssdp::trace_recorder;
using fssdp::tracing;
using support::random_instance;
using support::rank_buffers;

namespace {

using traced_threads = tracing<thread_communicator, trace_recorder>;
static_assert(fssdp::forwarding_communicator<traced_threads>);
static_assert(fssdp::lending_communicator<traced_threads>);
using traced_archetype = tracing<support::communicator_archetype, trace_recorder>;
static_assert(fssdp::communicator<traced_archetype>);
static_assert(!fssdp::forwarding_communicator<traced_archetype>);
static_assert(!fssdp::lending_communicator<traced_archetype>);

/// What one rank has counted and traced.
struct recorded {
  exchange_counts counts = {};
  std::vector<trace_event> events = {};
};

/// What a gather and the reduction that reads it backwards record, on every rank.
template <class Hide>
[[nodiscard]] std::vector<recorded> both_verbs(random_instance const& of, Hide hide) {
  return support::on_all_ranks(of.layout.ranks(), [&](thread_communicator& comm) {
    auto mine = rank_buffers<float>{of, comm.rank()};
    auto trace = trace_recorder{{.rank = comm.rank(), .capacity = 1000}};
    auto counted = fssdp::counting{comm};
    auto&& less = hide(counted);
    auto gathers = tracing{less, &trace, gather_track};
    auto reduces = tracing{less, &trace, reduce_track};
    fssdp::sparse_all_gather(gathers, of.plan, mine.shard, mine.replicas);
    fssdp::sparse_reduce_scatter(reduces, of.plan, mine.partials, mine.gradients);
    return recorded{counted.counts(), trace.events()};
  });
}

/// All that was traced, as a counting adaptor sums it up.
[[nodiscard]] exchange_counts sum(std::span<trace_event const> events) {
  auto sum = exchange_counts{};
  for (auto const& event : events) {
    auto const& numbers = event.work.numbers;
    ++sum.exchanges;
    sum.messages_sent += static_cast<std::uint64_t>(numbers.messages_sent.value());
    sum.bytes_sent += static_cast<std::uint64_t>(numbers.bytes_sent.value());
    sum.messages_received += static_cast<std::uint64_t>(numbers.messages_received.value());
    sum.bytes_received += static_cast<std::uint64_t>(numbers.bytes_received.value());
  }
  return sum;
}

/// What is wrong with what a rank has recorded of both collectives.
[[nodiscard]] int faults(recorded const& rank, fssdp::transfer_plan const& plan) {
  auto counts = rank.counts;
  counts.bytes_borrowed = 0;
  auto faults = sum(rank.events) == counts ? 0 : 1;
  auto rounds = std::set<std::int64_t>{};
  for (std::size_t i = 0; i < rank.events.size(); ++i) {
    auto const& event = rank.events[i];
    if (i > 0 && event.begin < rank.events[i - 1].end) ++faults;  // one after the other
    if (i > 0 && event.work.track == gather_track && rank.events[i - 1].work.track == reduce_track)
      ++faults;
    if (event.work.numbers.plan != plan.hash_value()) ++faults;
    if (!rounds.insert(event.work.numbers.round.value()).second) ++faults;
  }
  return faults;
}

constexpr auto some = support::law_instances / 100 + 1;

}  // namespace

TEST_CASE("a trace of a gather and a reduction has the counted messages and bytes") {
  auto forwarded = 0;
  for (int seed = 1; seed <= some; ++seed) {
    CAPTURE(seed);
    auto const of = support::relayed_instance(static_cast<std::uint64_t>(seed), {});
    for (auto const& rank : both_verbs(
             of, [](auto& comm) -> auto& { return comm; })) {
      REQUIRE(faults(rank, of.plan) == 0);
      for (auto const& event : rank.events) forwarded += event.work.name.view() == "forward";
    }
  }
  REQUIRE(forwarded > 0);
}

TEST_CASE("rounds that are lent are recorded one by one") {
  auto lent = 0;
  support::for_random_instances(some, [&](random_instance const& of) {
    auto const all = both_verbs(of, [](auto& comm) { return support::lending_only{comm}; });
    for (auto const& rank : all) {
      REQUIRE(faults(rank, of.plan) == 0);
      for (auto const& event : rank.events) lent += event.work.name.view() == "lend";
    }
  });
  REQUIRE(lent > 0);
}

TEST_CASE("a bare communicator can be traced as well") {
  support::for_random_instances(some, [&](random_instance const& of) {
    auto const all = both_verbs(of, [](auto& comm) { return support::exchange_only{comm}; });
    for (auto const& rank : all) REQUIRE(faults(rank, of.plan) == 0);
  });
}

TEST_CASE("without a sink nothing is recorded, and everything goes through") {
  auto const arrived = support::on_all_ranks(3, [](thread_communicator& comm) {
    auto silent = tracing{comm, static_cast<trace_recorder*>(nullptr), gather_track};
    auto all = std::vector<int>(3);
    fssdp::all_gather(silent, std::vector{comm.rank().value()}, all);
    return all;
  });
  REQUIRE(arrived == std::vector(3, std::vector{0, 1, 2}));
}

TEST_CASE("an exchange that fails is recorded with the messages that it had registered") {
  auto world = fssdp::thread_world{2};
  auto events = std::vector<std::vector<trace_event>>(2);
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto trace = trace_recorder{{.rank = comm.rank(), .capacity = 10}};
    auto breaks = fssdp::faulty{
        comm, {.exchange = comm.rank().value(), .moment = fssdp::fault_moment::behind_post}};
    auto traced = tracing{breaks, &trace, gather_track};
    try {
      auto all = std::vector<int>(2);
      fssdp::all_gather(traced, std::vector{1}, all);
    } catch (...) {
      events[comm.rank().index()] = trace.events();
      throw;
    }
  });
  REQUIRE(support::is<fssdp::injected_fault>(result.of_run));
  for (auto const& of_rank : events) {
    REQUIRE(of_rank.size() == 1);
    REQUIRE(of_rank[0].work.numbers.bytes_sent == sizeof(int));
    REQUIRE(of_rank[0].work.numbers.messages_received == 1);
  }
}

TEST_CASE("labels pass through a traced communicator, so that ranks that disagree get an error") {
  auto world = fssdp::thread_world{2};
  auto const result = support::fallout_of(world, [](thread_communicator& comm) {
    auto trace = trace_recorder{{.rank = comm.rank(), .capacity = 10}};
    auto traced = tracing{comm, &trace, gather_track};
    auto const peer = rank_id{1 - comm.rank().value()};
    auto const mine = comm.rank().value();
    auto theirs = 0;
    traced.exchange([&](auto& batch) {
      set_label(batch, {.plan = 1, .round = comm.rank().value()});
      batch.send(std::as_bytes(std::span{&mine, 1}), peer);
      batch.recv(std::as_writable_bytes(std::span{&theirs, 1}), peer);
    });
  });
  REQUIRE(support::is<fssdp::ranks_disagree>(result.of_run));
}

TEST_CASE("several streams of a rank record into one trace") {
  auto const counts = support::on_all_ranks(2, [](thread_communicator& comm) {
    auto trace = trace_recorder{{.rank = comm.rank(), .capacity = 100}};
    auto other = comm.duplicate();
    auto gathers = tracing{comm, &trace, gather_track};
    auto reduces = tracing{other, &trace, reduce_track};
    {
      auto one = fssdp::host_stream{};
      auto two = fssdp::host_stream{};
      auto first = fssdp::on_stream(gathers, one);
      auto second = fssdp::on_stream(reduces, two);
      auto const mine = std::vector{comm.rank().value()};
      auto all = std::vector<std::vector<int>>(20, std::vector<int>(2));
      for (std::size_t i = 0; i < 20; i += 2) {
        fssdp::all_gather(first, mine, all[i]);
        fssdp::all_gather(second, mine, all[i + 1]);
      }
      first.synchronize();
      second.synchronize();
    }
    auto tracks = std::vector<int>(2);
    for (auto const& event : trace.events()) ++tracks[event.work.track == gather_track ? 0 : 1];
    return tracks;
  });
  REQUIRE(counts == std::vector(2, std::vector{10, 10}));
}
