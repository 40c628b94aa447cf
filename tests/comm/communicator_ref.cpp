// SPDX-License-Identifier: Apache-2.0
/// Any communicator as one type, with exactly the extras of the communicator inside.
#include "fssdp/comm/communicator_ref.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_gather.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/communicator_archetype.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::communicator_ref;
using fssdp::rank_id;
using fssdp::thread_communicator;
using fssdp::detail::batch_ref;
using fssdp::detail::gate_ref;

namespace {

/// What a communicator says that it can do.
struct extras {
  bool lends;
  bool forwards;
  bool in_host_memory;
  friend bool operator==(extras const&, extras const&) = default;
};
[[nodiscard]] extras extras_of(communicator_ref const& comm) {
  return {comm.lends(), comm.forwards(), comm.in_host_memory()};
}

/// The number that each rank has, summed over a rank and its left neighbour in three ways.
[[nodiscard]] std::vector<int> sums_around(communicator_ref const& comm) {
  auto const ranks = comm.size();
  auto const me = comm.rank().value();
  auto const right = rank_id{(me + 1) % ranks};
  auto const left = rank_id{(me + ranks - 1) % ranks};
  auto const mine = me + 1;
  auto const out = std::as_bytes(std::span{&mine, 1});
  auto sums = std::vector<int>{};

  auto copied = 0;
  comm.exchange([&](batch_ref const& batch) {
    batch.label({7, 0});
    batch.send(out, right);
    batch.recv(std::as_writable_bytes(std::span{&copied, 1}), left);
  });
  sums.push_back(mine + copied);

  auto const number_in = [](std::span<std::byte const> bytes) {
    return *reinterpret_cast<int const*>(bytes.data());
  };
  comm.exchange_lending(
      [&](batch_ref const& batch) {
        batch.send(out, right);
        batch.borrow(out.size(), left);
      },
      [&](std::span<std::span<std::byte const> const> lent) {
        sums.push_back(mine + number_in(lent.front()));
      });

  // Each passes on what it gets: after two hops it is that of the rank before the left one.
  auto passed = 0;
  auto last = 0;
  comm.exchange_forwarding(
      [&](batch_ref const& batch) {
        batch.send(out, right);
        batch.recv(std::as_writable_bytes(std::span{&passed, 1}), left);
        batch.hold(std::as_bytes(std::span{&passed, 1}), right);
        batch.recv(std::as_writable_bytes(std::span{&last, 1}), left);
      },
      [&](std::size_t wanted, std::span<std::byte const>, gate_ref const& gate) {
        if (wanted == 0) gate.release(1);
      });
  sums.push_back(mine + last);
  return sums;
}

}  // namespace

TEST_CASE("a communicator_ref does what its communicator does") {
  constexpr auto ranks = 4;
  auto const sums = support::on_all_ranks(
      ranks, [](thread_communicator& comm) { return sums_around(communicator_ref{comm}); });
  for (int rank = 0; rank < ranks; ++rank) {
    auto const left = (rank + ranks - 1) % ranks + 1;
    auto const before = (rank + ranks - 2) % ranks + 1;
    REQUIRE(sums[static_cast<std::size_t>(rank)] ==
            std::vector{rank + 1 + left, rank + 1 + left, rank + 1 + before});
  }
}

TEST_CASE("a communicator_ref says which extras there are") {
  auto const found = support::on_all_ranks(1, [](thread_communicator& comm) {
    auto counted = fssdp::counting{comm};
    auto lending = support::lending_only{comm};
    auto bare = support::exchange_only{comm};
    return std::vector{extras_of(communicator_ref{comm}), extras_of(communicator_ref{counted}),
                       extras_of(communicator_ref{lending}), extras_of(communicator_ref{bare})};
  });
  REQUIRE(found.front() ==
          std::vector<extras>{
              {true, true, true}, {true, true, true}, {true, false, true}, {false, false, true}});
}

namespace {

/// The only rank of a world of device memory: values of the host go their own way.
class device_alone {
 public:
  using memory_space = fssdp::device_memory;

  [[nodiscard]] rank_id rank() const { return {}; }
  [[nodiscard]] int size() const { return 1; }
  template <class Post>
  void exchange(Post&& post) {
    ++exchanges;
    auto bare = batch{};
    post(bare);
  }
  void gather_values(std::span<std::byte const> mine, std::span<std::byte> all) {
    ++gathers;
    std::ranges::copy(mine, all.begin());
  }
  void sum(fssdp::device_sums const&) {}
  void convert(fssdp::device_conversions const&) {}
  void copy(std::span<std::byte>, std::span<std::byte const>) {}
  std::span<std::byte> allocate(std::size_t) { return {}; }
  void free(std::span<std::byte>) {}

  int exchanges = 0;
  int gathers = 0;

 private:
  struct batch {
    void send(std::span<std::byte const>, rank_id) {}
    void recv(std::span<std::byte>, rank_id) {}
  };
};
static_assert(fssdp::device_communicator<device_alone>);
static_assert(fssdp::gathering_communicator<device_alone>);

}  // namespace

TEST_CASE("host values are gathered through a communicator_ref") {
  constexpr auto ranks = 3;
  auto const rows = support::on_all_ranks(ranks, [](thread_communicator& comm) {
    auto counted = fssdp::counting{comm};
    auto ref = communicator_ref{counted};
    auto const me = comm.rank().value();
    auto all = std::vector<int>(2 * ranks);
    fssdp::all_gather(ref, std::vector{me, me + 10}, all);
    all.push_back(static_cast<int>(counted.counts().exchanges));
    return all;
  });
  for (auto const& of_rank : rows) REQUIRE(of_rank == std::vector{0, 10, 1, 11, 2, 12, 1});
}

TEST_CASE("values of a device are gathered by the communicator itself through a communicator_ref") {
  auto comm = device_alone{};
  auto ref = communicator_ref{comm};
  auto all = std::vector<int>(2);
  fssdp::all_gather(ref, std::vector{4, 5}, all);
  REQUIRE(all == std::vector{4, 5});
  REQUIRE(comm.gathers == 1);
  REQUIRE(comm.exchanges == 0);
}

TEST_CASE("adaptors see each message that goes through a communicator_ref") {
  auto const counts = support::on_all_ranks(2, [](thread_communicator& comm) {
    auto counted = fssdp::counting{comm};
    (void)sums_around(communicator_ref{counted});
    return counted.counts();
  });
  for (auto const& of_rank : counts) {
    REQUIRE(of_rank.exchanges == 3);
    REQUIRE(of_rank.messages_sent == 4);
    REQUIRE(of_rank.bytes_received == 4 * sizeof(int));
    REQUIRE(of_rank.bytes_borrowed == sizeof(int));
  }
}
