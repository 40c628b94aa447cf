// SPDX-License-Identifier: Apache-2.0
/// Ranks that are threads: what they promise beyond the contract of a communicator.
#include "fssdp/comm/thread.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::rank_id;
using fssdp::thread_communicator;
using fssdp::thread_world;
using support::on_all_ranks;

TEST_CASE("an empty batch is legal and waits for no rank") {
  auto finished = std::atomic{0};
  thread_world{3}.run([&](thread_communicator& comm) {
    comm.exchange([](auto&) {});
    comm.lend([](auto&) {}, [&](auto const& lent) { finished += lent.empty() ? 1 : 100; });
    ++finished;
  });
  REQUIRE(finished == 6);  // on every rank, and in its visit
}

TEST_CASE("a gather copies every byte once, lending copies none") {
  auto const copied = on_all_ranks(3, [](thread_communicator& comm) {
    auto const mine = std::vector<double>(10);
    auto theirs = std::vector<double>(20);
    auto const send_to_all = [&](auto& batch) {
      for (auto const peer : fssdp::first_n<rank_id>(3))
        if (peer != comm.rank()) batch.send(std::as_bytes(std::span{mine}), peer);
    };
    comm.exchange([&](auto& batch) {
      send_to_all(batch);
      auto room = std::span{theirs};
      for (auto const peer : fssdp::first_n<rank_id>(3))
        if (peer != comm.rank()) {
          batch.recv(std::as_writable_bytes(room.first(10)), peer);
          room = room.subspan(10);
        }
    });
    auto const by_exchange = comm.copied_bytes();
    comm.lend(
        [&](auto& batch) {
          send_to_all(batch);
          for (auto const peer : fssdp::first_n<rank_id>(3))
            if (peer != comm.rank()) batch.borrow(80, peer);
        },
        [](auto const&) {});
    return std::pair{by_exchange, comm.copied_bytes() - by_exchange};
  });
  REQUIRE(copied == std::vector(3, std::pair<std::uint64_t, std::uint64_t>{160, 0}));
}

TEST_CASE("data larger than the caches has arrived when the exchange returns") {
  constexpr auto ranks = 3;
  constexpr auto sizes = std::array<std::size_t, 2>{3U << 20U, (2U << 20U) + 5};  // together large
  auto const wrong = on_all_ranks(ranks, [&](thread_communicator& comm) {
    auto const next = rank_id{(comm.rank().value() + 1) % ranks};
    auto const previous = rank_id{(comm.rank().value() + ranks - 1) % ranks};
    auto errors = 0;
    auto mine = std::vector<std::byte>(sizes[0] + sizes[1]);
    auto theirs = std::vector<std::byte>(mine.size());
    for (int turn = 0; turn < 3; ++turn) {
      auto const filling = [&](rank_id rank) { return std::byte(10 * turn + rank.value()); };
      std::ranges::fill(mine, filling(comm.rank()));  // nobody reads it any more
      comm.exchange([&](auto& batch) {
        batch.send(std::span{mine}.first(sizes[0]), next);
        batch.send(std::span{mine}.last(sizes[1]), next);
        batch.recv(std::span{theirs}.first(sizes[0]), previous);
        batch.recv(std::span{theirs}.last(sizes[1]), previous);
      });
      errors += std::ranges::count(theirs, filling(previous)) == std::ssize(theirs) ? 0 : 1;
    }
    return errors;
  });
  REQUIRE(wrong == std::vector(ranks, 0));
}

TEST_CASE("borrowed memory is the sender's own, in the order of the borrow calls") {
  constexpr auto ranks = 4;
  auto memory = std::vector<std::vector<int>>(ranks, std::vector<int>(6));
  auto const seen = on_all_ranks(ranks, [&](thread_communicator& comm) {
    auto& mine = memory[comm.rank().index()];
    for (auto& value : mine) value = comm.rank().value();
    auto addresses = std::vector<void const*>{};
    auto sum = 0;
    comm.lend(
        [&](auto& batch) {
          for (auto const peer : fssdp::first_n<rank_id>(ranks)) {
            if (peer == comm.rank()) continue;
            batch.send(std::as_bytes(std::span{mine}.first(2)), peer);
            batch.send(std::as_bytes(std::span{mine}.subspan(2)), peer);
          }
          for (std::size_t size : {8U, 16U})  // first all heads, highest rank first; then all tails
            for (auto peer = ranks - 1; peer >= 0; --peer)
              if (peer != comm.rank().value()) batch.borrow(size, rank_id{peer});
        },
        [&](std::span<std::span<std::byte const> const> lent) {
          for (auto const bytes : lent) {
            addresses.push_back(bytes.data());
            sum += *reinterpret_cast<int const*>(bytes.data());
          }
        });
    mine.assign(6, -1);  // nobody reads it any more
    return std::pair{addresses, sum};
  });
  for (int rank = 0; rank < ranks; ++rank) {
    auto expected = std::vector<void const*>{};
    for (std::size_t first : {0U, 2U})
      for (auto peer = ranks - 1; peer >= 0; --peer)
        if (peer != rank) expected.push_back(memory[static_cast<std::size_t>(peer)].data() + first);
    REQUIRE(seen[static_cast<std::size_t>(rank)] ==
            std::pair{expected, 2 * (0 + 1 + 2 + 3 - rank)});
  }
}

TEST_CASE("a world that runs is not run again meanwhile, by a rank or in another thread") {
  auto world = fssdp::thread_world{2};
  auto refused = std::vector<std::string>(2);
  auto const run_again = [&](std::size_t who) {
    try {
      world.run([](thread_communicator&) {});
    } catch (fssdp::argument_error const& error) {
      refused[who] = error.what();
    }
  };
  world.run([&](thread_communicator& comm) {
    if (comm.rank() == rank_id{0}) run_again(0);
    if (comm.rank() == rank_id{1}) std::jthread{run_again, std::size_t{1}}.join();
    auto copy = comm.duplicate();  // all that the world has is still there
    copy.exchange([](auto&) {});
  });
  for (auto const& said : refused)
    REQUIRE_THAT(said, mentions("thread_world: run") && mentions("one run at a time"));
  REQUIRE_THROWS_AS(world.run([](thread_communicator&) { throw std::runtime_error{"mine"}; }),
                    std::runtime_error);
  REQUIRE_NOTHROW(world.run([](thread_communicator&) {}));
}

TEST_CASE("an impossible world is refused") {
  REQUIRE(thread_world{7}.size() == 7);
  REQUIRE_THROWS_AS((thread_world{0}), fssdp::argument_error);
  REQUIRE_THROWS_WITH((thread_world{-2}), mentions("-2 ranks") && mentions("1 or more"));
  auto const no_time = thread_world::options{.ranks = 2, .deadline = std::chrono::milliseconds{0}};
  REQUIRE_THROWS_AS(thread_world{no_time}, fssdp::argument_error);
  REQUIRE_THROWS_WITH(thread_world{no_time}, mentions("0 ms") && mentions("more than 0"));
}
