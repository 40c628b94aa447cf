// SPDX-License-Identifier: Apache-2.0
/// Adaptors pass on all calls, also submitted work.
#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_gather.hpp"
#include "fssdp/comm/communicator_adaptor.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/faulty.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/comm/tracing.hpp"
#include "fssdp/trace/trace_recorder.hpp"
#include "support/communicator_extras.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::counting;
using fssdp::exchange_counts;
using fssdp::rank_id;
using fssdp::thread_communicator;

namespace {

struct batch_of_all {
  void send(std::span<std::byte const>, rank_id) {}
  void recv(std::span<std::byte>, rank_id) {}
  void borrow(std::size_t, rank_id) {}
  void hold(std::span<std::byte const>, rank_id) {}
  void label(fssdp::batch_label const&) {}
};
struct gate {
  void release(std::size_t) {}
};

/// The only rank of its world, with all extras that there are: it writes down what is called.
class has_it_all {
 public:
  using stream_type = int;
  using memory_space = fssdp::device_memory;

  std::vector<std::string> calls;

  [[nodiscard]] rank_id rank() const { return rank_id{0}; }
  [[nodiscard]] int size() const { return 1; }
  [[nodiscard]] stream_type stream() const { return 7; }
  template <class Post>
  void exchange(Post&& post) {
    calls.emplace_back("exchange");
    auto batch = batch_of_all{};
    post(batch);
  }
  template <class Post, class Visit>
  void lend(Post&& post, Visit&& visit) {
    calls.emplace_back("lend");
    auto batch = batch_of_all{};
    post(batch);
    visit(std::span<std::span<std::byte const> const>{});
  }
  template <class Post, class Arrived>
  void forward(Post&& post, Arrived&& arrived) {
    calls.emplace_back("forward");
    auto batch = batch_of_all{};
    post(batch);
    auto release = gate{};
    arrived(std::size_t{0}, std::span<std::byte const>{}, release);
  }
  template <class Work>
  void submit(Work work) {
    calls.emplace_back("submit");
    work(*this);
  }
  void synchronize() { calls.emplace_back("synchronize"); }
  void agree(std::uint64_t plan) { calls.push_back("agree " + std::to_string(plan)); }
  void announce(std::span<std::uint64_t const> plans) {
    calls.push_back("announce " + std::to_string(plans.size()));
  }
  [[nodiscard]] bool has_agreed(std::uint64_t plan) {
    calls.push_back("has_agreed " + std::to_string(plan));
    return plan == 6;
  }
  void connect(std::span<rank_id const> peers) {
    calls.push_back("connect " + std::to_string(peers.size()));
  }
  void gather_values(std::span<std::byte const> mine, std::span<std::byte> all) {
    calls.push_back("gather_values " + std::to_string(mine.size()) + " " +
                    std::to_string(all.size()));
  }
  void sum(fssdp::device_sums const&) { calls.emplace_back("sum"); }
  void convert(fssdp::device_conversions const&) { calls.emplace_back("convert"); }
  void copy(std::span<std::byte>, std::span<std::byte const>) { calls.emplace_back("copy"); }
  [[nodiscard]] std::span<std::byte> allocate(std::size_t bytes) {
    calls.push_back("allocate " + std::to_string(bytes));
    return {};
  }
  void free(std::span<std::byte>) { calls.emplace_back("free"); }
  template <class Work>
  void prepare(Work work) {
    calls.emplace_back("prepare");
    work(*this);
  }
  [[nodiscard]] std::uint64_t position() const { return 5; }
  void await(std::uint64_t position) { calls.push_back("await " + std::to_string(position)); }
  void clear(std::span<std::byte>) { calls.emplace_back("clear"); }
};

/// Calls everything on an adaptor around one that has it all; returns what came through.
template <class Adaptor>
std::vector<std::string> calls_through(has_it_all& inner, Adaptor& comm) {
  auto const ignore = [](auto const&...) {};
  auto bytes = std::vector<std::byte>(4);
  comm.exchange(ignore);
  comm.lend(ignore, ignore);
  comm.forward(ignore, ignore);
  comm.announce(std::vector<std::uint64_t>(3));
  if (comm.has_agreed(6)) comm.agree(3);
  comm.connect(std::vector<rank_id>(2));
  comm.gather_values(bytes, bytes);
  comm.sum(fssdp::device_sums{});
  comm.convert(fssdp::device_conversions{});
  comm.copy(bytes, bytes);
  comm.free(comm.allocate(9));
  comm.prepare([](auto& streamed) { streamed.agree(4); });
  comm.submit([&](auto& streamed) { streamed.exchange(ignore); });
  comm.await(comm.position());
  comm.clear(bytes);
  comm.synchronize();
  inner.calls.push_back("stream " + std::to_string(comm.stream()));
  return inner.calls;
}

auto const everything =
    std::vector<std::string>{"exchange",     "lend",    "forward",   "announce 3",
                             "has_agreed 6", "agree 3", "connect 2", "gather_values 4 4",
                             "sum",          "convert", "copy",      "allocate 9",
                             "free",         "prepare", "agree 4",   "submit",
                             "exchange",     "await 5", "clear",     "synchronize",
                             "stream 7"};

template <fssdp::communicator Comm>
class passes_all : public fssdp::communicator_adaptor<passes_all<Comm>, Comm> {
 public:
  explicit passes_all(Comm& comm) : passes_all::communicator_adaptor{comm} {}
  template <fssdp::communicator Inner>
  [[nodiscard]] passes_all<Inner> around(Inner& inner) const {
    return passes_all<Inner>{inner};
  }
};

template <class Comm>
using traced = fssdp::tracing<Comm, fssdp::trace_recorder>;

}  // namespace

TEST_CASE("an adaptor passes on every extra") {
  auto inner = has_it_all{};
  SECTION("counting") {
    auto comm = counting{inner};
    REQUIRE(calls_through(inner, comm) == everything);
    REQUIRE(comm.counts().exchanges == 4);
  }
  SECTION("tracing") {
    auto comm = traced<has_it_all>{inner, nullptr, fssdp::gather_track};
    REQUIRE(calls_through(inner, comm) == everything);
  }
  SECTION("faulty") {
    auto comm = fssdp::faulty{inner, fssdp::fault{}};
    REQUIRE(calls_through(inner, comm) == everything);
  }
  SECTION("one that overrides nothing") {
    auto comm = passes_all{inner};
    REQUIRE(calls_through(inner, comm) == everything);
  }
}

TEST_CASE(
    "an adaptor has the extras of the inner communicator, except those that make communicators") {
  auto const all = support::extras_of<has_it_all, batch_of_all>();
  REQUIRE(support::extras_of<counting<has_it_all>, batch_of_all>() == all);
  REQUIRE(support::extras_of<traced<has_it_all>, batch_of_all>() == all);
  REQUIRE(support::extras_of<fssdp::faulty<has_it_all>, batch_of_all>() == all);
  auto threads = support::extras_of<thread_communicator, batch_of_all>();
  std::erase(threads, "duplicate");
  std::erase(threads, "split");
  std::erase(threads, "without");
  std::erase(threads, "find_lost");
  REQUIRE(support::extras_of<counting<thread_communicator>, batch_of_all>() == threads);
  REQUIRE(support::extras_of<traced<thread_communicator>, batch_of_all>() == threads);
  REQUIRE(support::extras_of<fssdp::faulty<thread_communicator>, batch_of_all>() == threads);
}

TEST_CASE("the README says which extras communicators have on the host") {
  auto of_threads = std::vector<std::string>{};
  auto of_queued = std::vector<std::string>{};
  fssdp::thread_world{1}.run([&](thread_communicator& comm) {
    auto stream = fssdp::host_stream{};
    auto queued = fssdp::on_stream(comm, stream);
    of_threads = support::extras_of(comm);
    of_queued = support::extras_of(queued);
    queued.synchronize();
  });
  REQUIRE(support::extras_in_readme("thread_communicator") == of_threads);
  REQUIRE(support::extras_in_readme("queued_communicator") == of_queued);
}

TEST_CASE("collectives on a stream are counted, by an adaptor inside or around it") {
  auto const counts = support::on_all_ranks(3, [](thread_communicator& comm) {
    auto stream = fssdp::host_stream{};
    auto queued = fssdp::on_stream(comm, stream);
    auto counted = counting{queued};
    auto twice = counting<decltype(counted)>{counted};  // without the type, a copy
    auto all = std::vector<int>(3);
    fssdp::all_gather(twice, std::vector{comm.rank().value()}, all);
    twice.exchange([](auto&) {});
    fssdp::synchronize(twice);
    return std::pair{counted.counts(), twice.counts()};
  });
  auto const expected = exchange_counts{.exchanges = 2,
                                        .messages_sent = 2,
                                        .bytes_sent = 8,
                                        .messages_received = 2,
                                        .bytes_received = 8};
  for (auto const& [inner, outer] : counts) {
    REQUIRE(inner == expected);
    REQUIRE(outer == expected);
  }
}

TEST_CASE("submitted work may run after its adaptor is destroyed") {
  auto const counts = support::on_all_ranks(2, [](thread_communicator& comm) {
    auto stream = fssdp::host_stream{};
    auto queued = fssdp::on_stream(comm, stream);
    auto counted = std::optional{counting{queued}};
    auto const copy = *counted;  // counts together with it
    auto is_gone = std::atomic{0};
    counted->submit([&](auto& streamed) {
      is_gone.wait(0);
      streamed.exchange([](auto&) {});
    });
    counted.reset();
    is_gone = 1;
    is_gone.notify_all();
    queued.synchronize();
    return copy.counts().exchanges;
  });
  REQUIRE(counts == std::vector<std::uint64_t>{1, 1});
}

TEST_CASE("a fault in submitted work comes from synchronize, at the exchange that was named") {
  auto const messages = support::on_all_ranks(2, [](thread_communicator& comm) {
    auto stream = fssdp::host_stream{};
    auto queued = fssdp::on_stream(comm, stream);
    auto frail = fssdp::faulty{queued, {.exchange = 2}};
    for (auto turn = 0; turn < 2; ++turn)
      frail.submit([](auto& streamed) { streamed.exchange([](auto&) {}); });
    try {
      frail.synchronize();
    } catch (fssdp::injected_fault const& fault) {
      return std::string{fault.what()};
    }
    return std::string{};
  });
  REQUIRE(messages == std::vector<std::string>{"rank 0 fails on purpose before exchange 2",
                                               "rank 1 fails on purpose before exchange 2"});
}

TEST_CASE("work on a stream is traced when it runs") {
  auto const traces = support::on_all_ranks(2, [](thread_communicator& comm) {
    auto trace = fssdp::trace_recorder{{.rank = comm.rank()}};
    auto stream = fssdp::host_stream{};
    auto queued = fssdp::on_stream(comm, stream);
    auto noted = fssdp::tracing{queued, &trace, fssdp::gather_track};
    auto all = std::vector<int>(2);
    fssdp::all_gather(noted, std::vector{comm.rank().value()}, all);
    return trace.events();
  });
  for (auto const& events : traces) {
    REQUIRE(events.size() == 1);
    REQUIRE(events.front().work.numbers.bytes_sent == 4);
    REQUIRE(events.front().work.numbers.bytes_received == 4);
  }
}
