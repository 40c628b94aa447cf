// SPDX-License-Identifier: Apache-2.0
/// The concepts of a communicator: near misses that lack exactly one thing, beside twins that do
/// not.
#include "fssdp/comm/communicator.hpp"

#include "catch.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/on.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/communicator_archetype.hpp"

using fssdp::rank_id;

namespace {

enum class lack { nothing, rank, size, exchange, constness_of_rank, constness_of_size };
enum class wrong { nothing, rank, size };

struct has_types {
  using stream_type = fssdp::inline_stream;
  using memory_space = fssdp::host_memory;
};
struct has_no_stream_type {
  using memory_space = fssdp::host_memory;
};
struct has_no_memory_space {
  using stream_type = fssdp::inline_stream;
};

/// All that the concept asks for, less one thing.
template <lack Missing, wrong Bent = wrong::nothing, class Types = has_types>
struct near_miss : Types {
  rank_id rank() const
      requires(Missing != lack::rank && Missing != lack::constness_of_rank && Bent != wrong::rank) {
    return {};
  }
  rank_id rank() requires(Missing == lack::constness_of_rank) { return {}; }
  int rank() const requires(Bent == wrong::rank) { return 0; }
  int size() const
      requires(Missing != lack::size && Missing != lack::constness_of_size && Bent != wrong::size) {
    return 1;
  }
  int size() requires(Missing == lack::constness_of_size) { return 1; }
  std::size_t size() const requires(Bent == wrong::size) { return 1; }
  template <class Post>
  void exchange(Post&&) requires(Missing != lack::exchange) {}
};

template <lack Missing, wrong Bent = wrong::nothing, class Types = has_types>
inline constexpr bool is_communicator = fssdp::communicator<near_miss<Missing, Bent, Types>>;

static_assert(is_communicator<lack::nothing>, "the twin of all others");
static_assert(!is_communicator<lack::rank>);
static_assert(!is_communicator<lack::size>);
static_assert(!is_communicator<lack::exchange>);
static_assert(!is_communicator<lack::constness_of_rank>);
static_assert(!is_communicator<lack::constness_of_size>);
static_assert(!is_communicator<lack::nothing, wrong::rank>, "a bare number is not a rank");
static_assert(!is_communicator<lack::nothing, wrong::size>);
static_assert(!is_communicator<lack::nothing, wrong::nothing, has_no_stream_type>);
static_assert(!is_communicator<lack::nothing, wrong::nothing, has_no_memory_space>);
static_assert(!fssdp::communicator<int>);

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

using twin = near_miss<lack::nothing>;
static_assert(fssdp::lending_communicator<lends<twin>>, "the twin of the others");
static_assert(!fssdp::lending_communicator<twin>);
static_assert(!fssdp::lending_communicator<lends_without_visit<twin>>);
static_assert(!fssdp::lending_communicator<lends<near_miss<lack::exchange>>>);

static_assert(fssdp::lending_communicator<fssdp::thread_communicator>);
static_assert(fssdp::lending_communicator<fssdp::counting<fssdp::thread_communicator>>);
static_assert(!fssdp::lending_communicator<fssdp::counting<twin>>);
static_assert(fssdp::communicator<fssdp::queued_communicator<twin>>);

struct batch_with_label : sends_and_receives {
  fssdp::batch_label seen;
  void label(fssdp::batch_label const& value) { seen = value; }
};

}  // namespace

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
  fssdp::submit(comm, [&](support::communicator_archetype& lane) { seen = &lane; });
  REQUIRE(seen == &comm);
  REQUIRE_NOTHROW(fssdp::synchronize(comm));
  REQUIRE_THROWS_AS(fssdp::submit(comm, [](auto&) { throw fssdp::error{"mine"}; }), fssdp::error);
}
