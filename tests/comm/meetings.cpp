// SPDX-License-Identifier: Apache-2.0
/// Ranks that meet: one thread serves all that messages connect, and only those. A rank that comes
/// with something else, late or not at all is named.
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <latch>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::rank_id;
using fssdp::thread_communicator;
using fssdp::detail::thread_meeting;

namespace {

constexpr auto all_bytes = std::array<std::byte, 64>{};

constexpr auto no_service = [](thread_meeting const&) {};

constexpr auto nothing_to_prepare = [](auto const&) {};

/// A byte to some peers, and one from each of them, of which `prepare` sees the address.
template <class Prepare, class Serve>
void meet(thread_communicator& comm, std::vector<int> const& peers, Prepare prepare, Serve serve,
          std::size_t bytes = 1) {
  comm.meet(
      [&](auto& batch) {
        batch.label({.plan = 7, .round = 2});
        for (auto const peer : peers) {
          batch.send(std::span{all_bytes}.subspan(comm.rank().index() % 32, bytes), rank_id{peer});
          batch.borrow(1, rank_id{peer});
        }
      },
      prepare, serve);
}
template <class Serve>
void meet(thread_communicator& comm, std::vector<int> const& peers, Serve serve) {
  meet(comm, peers, nothing_to_prepare, serve);
}
[[nodiscard]] std::vector<int> all_but(int rank, int ranks) {
  auto peers = std::vector<int>{};
  for (int peer = 0; peer < ranks; ++peer)
    if (peer != rank) peers.push_back(peer);
  return peers;
}

}  // namespace

TEST_CASE("one rank serves all ranks of a meeting when each has seen what it borrows") {
  auto const ranks = GENERATE(1, 2, 5, 70);
  auto const meetings = ranks == 70 ? 5 : 200;
  auto served = std::atomic{0};
  auto prepared = std::atomic{0};
  auto wrong = std::atomic{0};
  auto world = fssdp::thread_world{ranks};
  world.run([&](thread_communicator& comm) {
    auto const peers = all_but(comm.rank().value(), ranks);
    for (int turn = 0; turn < meetings; ++turn) {
      auto here = false;
      meet(
          comm, peers,
          [&](auto const& lent) {
            ++prepared;
            wrong += lent.size() == peers.size() ? 0 : 1;
            for (std::size_t i = 0; i < lent.size(); ++i)
              wrong += lent[i].data() == &all_bytes[static_cast<std::size_t>(peers[i]) % 32] &&
                               lent[i].size() == 1
                           ? 0
                           : 1;
          },
          [&](thread_meeting const& of) {
            here = true;
            auto const come = std::set<rank_id>(of.ranks.begin(), of.ranks.end());
            wrong += come.size() == of.ranks.size() ? 0 : 1;
            wrong += static_cast<int>(come.size()) == ranks ? 0 : 1;
            wrong += prepared == (turn + 1) * ranks ? 0 : 1;
          });
      served += here ? 1 : 0;
    }
  });
  REQUIRE(served == meetings);
  REQUIRE(wrong == 0);
}

TEST_CASE("ranks meet in other circles from time to time, and some come late") {
  auto const seed = GENERATE(1U, 2U, 3U, 4U);
  constexpr auto ranks = 6;
  constexpr auto meetings = 400;
  auto wrong = std::atomic{0};
  auto served = std::atomic{0};
  auto expected = 0;
  auto circles = std::vector<std::array<int, ranks>>{};  // [meetings]: the circle of each rank
  auto random = std::mt19937{seed};
  for (int turn = 0; turn < meetings; ++turn) {
    if (turn == 0 || random() % 4 == 0) {  // else the same as last time
      auto& of = circles.emplace_back();
      for (auto& circle : of) circle = static_cast<int>(random() % 3);
    } else {
      circles.push_back(circles.back());
    }
    expected +=
        static_cast<int>(std::set<int>(circles.back().begin(), circles.back().end()).size());
  }
  auto world = fssdp::thread_world{ranks};
  world.run([&](thread_communicator& comm) {
    auto const me = comm.rank();
    auto own = std::mt19937{seed + 100 * (1 + me.index())};
    for (auto const& circle_of : circles) {
      auto same = std::set<rank_id>{me};
      auto peers = std::vector<int>{};
      for (int rank = 0; rank < ranks; ++rank) {
        if (circle_of[static_cast<std::size_t>(rank)] != circle_of[me.index()]) continue;
        same.insert(rank_id{rank});
        if (rank != me.value()) peers.push_back(rank);
      }
      if (own() % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds{1});
      meet(comm, peers, [&](thread_meeting const& of) {
        ++served;
        wrong += std::set<rank_id>(of.ranks.begin(), of.ranks.end()) == same ? 0 : 1;
      });
    }
  });
  CAPTURE(seed);
  REQUIRE(wrong == 0);
  REQUIRE(served == expected);
}

TEST_CASE("a rank that names others which meet without it gets an error") {
  auto world = fssdp::thread_world{3};
  auto const result = support::fallout_of(world, [](thread_communicator& comm) {
    auto const me = comm.rank().value();
    meet(comm, all_but(me, 3), no_service);
    for (int turn = 0; turn < 3; ++turn) meet(comm, {me == 0 ? 1 : 0}, no_service);
  });
  // It comes before they leave, and they disagree, or afterwards, and they have left.
  auto const& last = result.of_rank[2];
  REQUIRE((support::is<fssdp::ranks_disagree>(last) || support::is<fssdp::peer_failed>(last)));
}

TEST_CASE("ranks do not meet again after one has failed elsewhere") {
  constexpr auto turns = 50;
  auto met = std::atomic{0};
  auto threw = std::atomic{0};
  auto together = std::barrier{3};
  auto world = fssdp::thread_world{3};
  (void)support::fallout_of(world, [&](thread_communicator& comm) {
    auto const peers = all_but(comm.rank().value(), 3);
    auto other = comm.duplicate();
    meet(comm, peers, no_service);
    try {
      meet(other, peers, nothing_to_prepare, no_service, comm.rank() == rank_id{1} ? 2 : 1);
    } catch (fssdp::transport_error const&) {
      ++threw;
    }
    for (int turn = 0; turn < turns; ++turn) {
      together.arrive_and_wait();
      try {
        meet(comm, peers, no_service);
        ++met;
      } catch (fssdp::transport_error const&) {
        ++threw;
      }
    }
  });
  REQUIRE(met == 0);
  REQUIRE(threw == 3 + 3 * turns);
}

TEST_CASE("ranks that no message connects do not wait for each other at a meeting") {
  auto first_pair_met = std::latch{2};
  auto sizes = std::array<std::size_t, 5>{};
  auto world = fssdp::thread_world{5};
  world.run([&](thread_communicator& comm) {
    auto const me = comm.rank().value();
    auto const count = [&](thread_meeting const& of) {
      for (auto const rank : of.ranks) sizes[rank.index()] = of.ranks.size();
    };
    if (me == 4) return meet(comm, {}, count);
    if (me >= 2) first_pair_met.wait();
    meet(comm, {me ^ 1}, count);
    if (me < 2) first_pair_met.count_down();
  });
  REQUIRE(sizes == std::array<std::size_t, 5>{2, 2, 2, 2, 1});
}

TEST_CASE("a chain of messages connects ranks that send each other nothing") {
  constexpr auto ranks = 4;
  auto sizes = std::atomic<std::size_t>{0};
  auto world = fssdp::thread_world{ranks};
  world.run([&](thread_communicator& comm) {
    auto const me = comm.rank().value();
    comm.meet(
        [&](auto& batch) {
          if (me + 1 < ranks) batch.send(std::span{all_bytes}.first(1), rank_id{me + 1});
          if (me != 0) batch.borrow(1, rank_id{me - 1});
        },
        nothing_to_prepare, [&](thread_meeting const& of) { sizes += of.ranks.size(); });
  });
  REQUIRE(sizes == ranks);
}

TEST_CASE("a message of another size at a meeting is an error, and no rank is served") {
  auto served = std::atomic{0};
  auto world = fssdp::thread_world{3};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto const me = comm.rank().value();
    meet(
        comm, all_but(me, 3), nothing_to_prepare, [&](auto const&) { ++served; }, me == 1 ? 2 : 1);
  });
  REQUIRE(served == 0);
  auto disagree = 0;
  for (auto const rank : {0U, 2U}) {
    REQUIRE(result.of_rank[rank] != nullptr);
    if (!support::is<fssdp::ranks_disagree>(result.of_rank[rank])) continue;
    ++disagree;
    REQUIRE(support::failed_rank(result.of_rank[rank]) == 1);
    REQUIRE_THAT(support::text(result.of_rank[rank]), mentions("1 byte") && mentions("2"));
  }
  REQUIRE(disagree >= 1);
  REQUIRE(result.of_rank[1] != nullptr);
}

TEST_CASE("ranks that name each other in different exchanges disagree at a meeting") {
  auto world = fssdp::thread_world{2};
  auto const result = support::fallout_of(world, [](thread_communicator& comm) {
    if (comm.rank() == rank_id{0}) meet(comm, {}, no_service);
    meet(comm, {1 - comm.rank().value()}, no_service);
  });
  auto const disagrees = [&](std::size_t rank) {
    return support::is<fssdp::ranks_disagree>(result.of_rank[rank]);
  };
  REQUIRE((disagrees(0) || disagrees(1)));
  REQUIRE(result.of_rank[0] != nullptr);
  REQUIRE(result.of_rank[1] != nullptr);
}

TEST_CASE("a rank that is refused at a meeting throws that error, and the others get one") {
  auto world = fssdp::thread_world{3};
  auto const result = support::fallout_of(world, [](thread_communicator& comm) {
    for (int turn = 0; turn < 3; ++turn)
      meet(comm, all_but(comm.rank().value(), 3), [&](thread_meeting const& of) {
        if (turn != 1) return;
        of.refuse(rank_id{2}, std::make_exception_ptr(std::runtime_error{"no room"}));
        of.refuse(rank_id{2}, std::make_exception_ptr(std::runtime_error{"and no light"}));
      });
  });
  REQUIRE(support::text(result.of_rank[2]) == "no room");
  for (auto const rank : {0U, 1U}) {
    REQUIRE(support::is<fssdp::peer_failed>(result.of_rank[rank]));
    REQUIRE(support::failed_rank(result.of_rank[rank]) == 2);
  }
}

TEST_CASE("a rank that cannot prepare says why, and no rank is served") {
  auto served = std::atomic{0};
  auto world = fssdp::thread_world{3};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto const me = comm.rank().value();
    meet(
        comm, all_but(me, 3),
        [&](auto const&) {
          if (me == 1) throw std::runtime_error{"no list"};
        },
        [&](auto const&) { ++served; });
  });
  REQUIRE(served == 0);
  REQUIRE(support::text(result.of_rank[1]) == "no list");
  for (auto const rank : {0U, 2U}) {
    REQUIRE(support::is<fssdp::peer_failed>(result.of_rank[rank]));
    REQUIRE(support::failed_rank(result.of_rank[rank]) == 1);
  }
}

TEST_CASE("a rank that does not come to a meeting is named by those that wait") {
  using namespace std::chrono_literals;
  auto const how = GENERATE(0, 1, 2);
  auto const begin = std::chrono::steady_clock::now();
  auto world = fssdp::thread_world{{.ranks = 4, .deadline = how == 2 ? 300ms : 60'000ms}};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto const me = comm.rank().value();
    meet(comm, all_but(me, 4), no_service);
    if (me == 1 && how == 0) return;
    if (me == 1 && how == 1) throw std::runtime_error{"tired"};
    if (me == 1) std::this_thread::sleep_for(900ms);
    meet(comm, all_but(me, 4), no_service);
  });
  for (auto const rank : {0U, 2U, 3U}) {
    CAPTURE(how, rank, support::text(result.of_rank[rank]));
    REQUIRE(support::is<fssdp::transport_error>(result.of_rank[rank]));
    REQUIRE(support::failed_rank(result.of_rank[rank]) == 1);
  }
  REQUIRE(std::chrono::steady_clock::now() - begin < 10s);
}

TEST_CASE("a meeting is not held when naming messages has failed") {
  auto world = fssdp::thread_world{2};
  auto const result = support::fallout_of(world, [](thread_communicator& comm) {
    comm.meet([](auto&) { throw std::runtime_error{"nothing to say"}; }, nothing_to_prepare,
              no_service);
  });
  REQUIRE(support::text(result.of_run) == "nothing to say");
}
