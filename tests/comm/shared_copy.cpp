// SPDX-License-Identifier: Apache-2.0
/// Large copies that several threads make together.
#include "fssdp/comm/thread/shared_copy.hpp"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/dice.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::rank_id;
using fssdp::thread_communicator;
using fssdp::detail::shared_copies;
using fssdp::detail::shared_copy;

namespace {

constexpr auto block = shared_copy::block_bytes;

/// Bytes that repeat themselves in no block.
[[nodiscard]] std::vector<std::byte> pattern(std::size_t size, std::size_t seed) {
  auto bytes = std::vector<std::byte>(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = std::byte((i * 31 + i / 251 + seed) % 256);
  return bytes;
}

}  // namespace

TEST_CASE("a copy in blocks arrives complete, whichever threads copy them") {
  auto wrong = 0;
  for (std::size_t size : {std::size_t{1}, block - 1, block, block + 1, 5 * block + 77})
    for (int threads = 1; threads <= 3; ++threads) {
      auto const from = pattern(size, size);
      auto to = std::vector<std::byte>(size + 1);
      auto copy = shared_copy{rank_id{0}, std::span{to}.first(size), from, 0};
      {
        auto helpers = std::vector<std::jthread>{};
        for (int n = 0; n < threads; ++n) helpers.emplace_back([&] { copy.work(); });
      }
      wrong += std::ranges::equal(std::span{to}.first(size), from) ? 0 : 1;
      wrong += to.back() == std::byte{0} && !copy.has_blocks() ? 0 : 1;
    }
  REQUIRE(wrong == 0);
}

TEST_CASE("a waiting thread copies the remaining blocks, and reports whose copy that was") {
  auto mutex = std::mutex{};
  auto lock = std::unique_lock{mutex};
  auto copies = shared_copies{4};
  auto told = std::vector<rank_id>{};
  auto const tell = [&](rank_id rank) { told.push_back(rank); };
  REQUIRE_FALSE(copies.help(lock, tell));

  auto const from = pattern(3 * block, 0);
  auto to = std::vector<std::byte>(3 * block);
  auto done = std::vector<std::byte>(2 * block);
  auto finished = shared_copy{rank_id{2}, done, std::span{from}.first(2 * block), 0};
  finished.work();
  auto copy = shared_copy{rank_id{3}, to, from, 0};
  copies.offer(finished);
  copies.offer(copy);
  REQUIRE(copies.help(lock, tell));
  REQUIRE(lock.owns_lock());
  REQUIRE(to == from);
  REQUIRE(told == std::vector{rank_id{3}});
  REQUIRE_FALSE(copies.help(lock, tell));

  auto late = shared_copy{rank_id{1}, to, from, 0};
  copies.withdraw(copy);
  copies.offer(late);
  copies.withdraw(late);
  REQUIRE_FALSE(copies.help(lock, tell));
  REQUIRE(told.size() == 1);
}

TEST_CASE("messages of any size arrive whole while ranks help each other") {
  constexpr auto ranks = 4;
  auto dice = support::dice{20260};
  for (int turn = 0; turn < 10; ++turn) {
    auto sizes = std::vector<std::size_t>{};  // [from, to]
    for (int pair = 0; pair < ranks * ranks; ++pair)
      sizes.push_back(dice.chance(30) ? 0
                                      : static_cast<std::size_t>(dice.between(0, 3)) * block +
                                            static_cast<std::size_t>(dice.between(0, 2)));
    auto const size = [&](int from, int to) {
      return sizes[static_cast<std::size_t>(from * ranks + to)];
    };
    auto const wrong = support::on_all_ranks(ranks, [&](thread_communicator& comm) {
      auto const me = comm.rank().value();
      auto const name = [](int from, int to) { return static_cast<std::size_t>(10 * from + to); };
      auto out = std::vector<std::vector<std::byte>>{};
      auto in = std::vector<std::vector<std::byte>>{};
      for (int peer = 0; peer < ranks; ++peer) {
        out.push_back(pattern(size(me, peer), name(me, peer)));
        in.emplace_back(size(peer, me));
      }
      auto const post = [&](auto& batch) {
        for (int peer = 0; peer < ranks; ++peer) {
          if (peer == me) continue;
          batch.send(out[static_cast<std::size_t>(peer)], rank_id{peer});
          batch.recv(in[static_cast<std::size_t>(peer)], rank_id{peer});
        }
      };
      auto errors = 0;
      auto const check = [&] {
        for (int peer = 0; peer < ranks; ++peer)
          if (peer != me &&
              in[static_cast<std::size_t>(peer)] != pattern(size(peer, me), name(peer, me)))
            ++errors;
        for (auto& bytes : in) std::ranges::fill(bytes, std::byte{});
      };
      comm.exchange(post);
      check();
      comm.forward(post, [](std::size_t, std::span<std::byte const>, auto&) {});
      check();
      return errors;
    });
    REQUIRE(wrong == std::vector(ranks, 0));
  }
}
