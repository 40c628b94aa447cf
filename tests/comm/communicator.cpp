// SPDX-License-Identifier: Apache-2.0
/// The concepts around a communicator: near misses that lack exactly one thing, beside twins that
/// do not; those of the communicator itself are in tests/contract.
#include "fssdp/comm/communicator.hpp"

#include <concepts>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_gather.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/communicator_archetype.hpp"

using fssdp::rank_id;

namespace {

struct sends_and_receives {
  void send(std::span<std::byte const>, rank_id) {}
  void recv(std::span<std::byte>, rank_id) {}
};
struct only_sends {
  void send(std::span<std::byte const>, rank_id) {}
};
struct only_receives {
  void recv(std::span<std::byte>, rank_id) {}
};
struct sends_to_numbers {
  void send(std::span<std::byte const>, int) {}
  void recv(std::span<std::byte>, rank_id) {}
};
struct wants_to_change_what_is_sent {
  void send(std::span<std::byte>, rank_id) {}
  void recv(std::span<std::byte>, rank_id) {}
};

static_assert(fssdp::exchange_batch<sends_and_receives>, "the twin of the others");
static_assert(!fssdp::exchange_batch<only_sends>);
static_assert(!fssdp::exchange_batch<only_receives>);
static_assert(!fssdp::exchange_batch<sends_to_numbers>);
static_assert(!fssdp::exchange_batch<wants_to_change_what_is_sent>);

template <class Base>
struct lends : Base {
  template <class Post, class Visit>
  void lend(Post&&, Visit&&) {}
};
template <class Base>
struct lends_without_visit : Base {
  template <class Post>
  void lend(Post&&) {}
};

struct twin {
  rank_id rank() const { return {}; }
  int size() const { return 1; }
  template <class Post>
  void exchange(Post&&) {}
};
struct cannot_exchange : twin {
  void exchange() {}
};
static_assert(!fssdp::communicator<int>);
static_assert(fssdp::lending_communicator<lends<twin>>, "the twin of the others");
static_assert(!fssdp::lending_communicator<twin>);
static_assert(!fssdp::lending_communicator<lends_without_visit<twin>>);
static_assert(!fssdp::lending_communicator<lends<cannot_exchange>>);

static_assert(fssdp::lending_communicator<fssdp::thread_communicator>);
static_assert(fssdp::lending_communicator<fssdp::counting<fssdp::thread_communicator>>);
static_assert(!fssdp::lending_communicator<fssdp::counting<twin>>);
static_assert(fssdp::communicator<fssdp::queued_communicator<twin>>);

struct on_a_device : twin {
  using memory_space = fssdp::device_memory;
};
static_assert(std::same_as<fssdp::stream_type_of<twin>, fssdp::inline_stream>, "the default");
static_assert(std::same_as<fssdp::memory_space_of<twin>, fssdp::host_memory>, "the default");
static_assert(std::same_as<fssdp::memory_space_of<on_a_device>, fssdp::device_memory>);
static_assert(
    std::same_as<fssdp::memory_space_of<fssdp::counting<on_a_device>>, fssdp::device_memory>);
static_assert(!fssdp::stream_bound<twin>);
static_assert(!fssdp::stream_bound<fssdp::thread_communicator>);
static_assert(fssdp::stream_bound<fssdp::queued_communicator<twin>>);

struct batch_with_label : sends_and_receives {
  fssdp::batch_label seen;
  void label(fssdp::batch_label const& value) { seen = value; }
};

}  // namespace

TEST_CASE("rank, size and exchange are all that a communicator needs") {
  auto comm = twin{};
  auto adapted = fssdp::counting{comm};
  auto stream = fssdp::host_stream{};
  auto bound = fssdp::on_stream(adapted, stream);
  auto all = std::vector<int>(1);
  fssdp::all_gather(bound, std::vector{7}, all);
  REQUIRE(all.front() == 7);
  REQUIRE(adapted.counts().exchanges == 1);
}

TEST_CASE("a label reaches a batch that takes labels, and no other") {
  auto labelled = batch_with_label{};
  fssdp::set_label(labelled, {.plan = 7, .round = 2});
  REQUIRE(labelled.seen == fssdp::batch_label{7, 2});
  auto bare = sends_and_receives{};
  REQUIRE_NOTHROW(fssdp::set_label(bare, {.plan = 7, .round = 2}));
}

TEST_CASE("work submitted to an inline communicator runs at once, with its errors") {
  auto comm = support::communicator_archetype{rank_id{0}};
  auto const* seen = static_cast<support::communicator_archetype*>(nullptr);
  fssdp::submit(comm, [&](support::communicator_archetype& streamed) { seen = &streamed; });
  REQUIRE(seen == &comm);
  REQUIRE_NOTHROW(fssdp::synchronize(comm));
  REQUIRE_THROWS_AS(fssdp::submit(comm, [](auto&) { throw fssdp::error{"mine"}; }), fssdp::error);
}
