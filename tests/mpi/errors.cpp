// SPDX-License-Identifier: Apache-2.0
/// Wherever a process throws, leaves, stalls or is in another exchange, every other one names it,
/// in time, and each later call throws at once.
#include <chrono>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/mpi.hpp"
#include "mpi/processes.hpp"

using fssdp::mpi_communicator;
using fssdp::rank_id;
using mpi_tests::ending;
using mpi_tests::endings;
using mpi_tests::processes;

namespace {

using namespace std::chrono_literals;

constexpr auto label = fssdp::batch_label{.plan = 0xabcdef, .round = 3};
constexpr auto far = fssdp::mpi_options{.deadline = 60s};  // nobody gets there
constexpr auto soon = fssdp::mpi_options{.deadline = 2s};  // long for who is busy, too

void receive(mpi_communicator& comm, int from, std::size_t bytes = 4) {
  auto in = std::vector<std::byte>(bytes);
  comm.exchange([&](auto& batch) {
    batch.label(label);
    batch.recv(in, rank_id{from});
  });
}
void send(mpi_communicator& comm, int to, std::size_t bytes = 4) {
  auto const out = std::vector<std::byte>(bytes);
  comm.exchange([&](auto& batch) {
    batch.label(label);
    batch.send(out, rank_id{to});
  });
}

/// Two ranks lend each other `bytes` bytes; when both have what they borrow, `visit` is called.
template <class Visit>
void lend(mpi_communicator& comm, int peer, std::size_t bytes, Visit visit) {
  auto const out = std::vector<std::byte>(bytes);
  comm.lend(
      [&](auto& batch) {
        batch.label(label);
        batch.send(out, rank_id{peer});
        batch.borrow(bytes, rank_id{peer});
      },
      [&](auto const&) { visit(); });
}

/// All but rank 1 have been told of what it threw, and none has waited for its deadline.
void all_name_rank_1(std::vector<ending> const& all) {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    CAPTURE(rank, all[rank].what());
    REQUIRE(all[rank].is(rank == 1 ? "exception" : "peer_failed"));
    REQUIRE_THAT(all[rank].what(), mentions("out of memory, say"));
    REQUIRE(all[rank].failed_rank == (rank == 1 ? -1 : 1));
    REQUIRE(all[rank].seconds < 20);
  }
}

}  // namespace

TEST_CASE("when a process throws, all others get a peer_failed that names it", "[at_least_2]") {
  if (mpi_tests::lacks_processes(2)) return;
  auto const ranks = processes().size();
  auto const bytes = GENERATE(std::size_t{4}, std::size_t{1} << 22U);
  SECTION("between exchanges, while they wait") {
    all_name_rank_1(endings(ranks, far, [&](mpi_communicator& comm) {
      if (comm.rank() == rank_id{1}) throw std::runtime_error{"out of memory, say"};
      receive(comm, comm.rank() == rank_id{0} ? 1 : 0, bytes);
    }));
  }
  SECTION("between exchanges, while they send") {
    all_name_rank_1(endings(ranks, far, [&](mpi_communicator& comm) {
      if (comm.rank() == rank_id{1}) throw std::runtime_error{"out of memory, say"};
      send(comm, 1, bytes);
      receive(comm, 1, bytes);
    }));
  }
  SECTION("when it looks at what is lent") {
    all_name_rank_1(endings(ranks, far, [&](mpi_communicator& comm) {
      if (comm.rank() == rank_id{1})
        lend(comm, 0, bytes, [] { throw std::runtime_error{"out of memory, say"}; });
      if (comm.rank() == rank_id{0}) lend(comm, 1, bytes, [] {});
      receive(comm, comm.rank() == rank_id{0} ? 1 : 0, bytes);
    }));
  }
  SECTION("when it names its messages") {
    all_name_rank_1(endings(ranks, far, [&](mpi_communicator& comm) {
      if (comm.rank() != rank_id{1}) return receive(comm, comm.rank() == rank_id{0} ? 1 : 0, bytes);
      comm.exchange([](auto&) { throw std::runtime_error{"out of memory, say"}; });
    }));
  }
  SECTION("when a message has come in") {
    all_name_rank_1(endings(ranks, far, [&](mpi_communicator& comm) {
      if (comm.rank().value() > 1) return receive(comm, 0, bytes);
      auto in = std::vector<std::byte>(bytes);
      auto const out = std::vector<std::byte>(bytes);
      if (comm.rank() == rank_id{0})
        comm.exchange([&](auto& batch) {
          batch.label(label);
          batch.send(out, rank_id{1});
          batch.recv(in, rank_id{1});
        });
      comm.forward(
          [&](auto& batch) {
            batch.label(label);
            batch.recv(in, rank_id{0});
            batch.hold(out, rank_id{0});
          },
          [](std::size_t, std::span<std::byte const>, auto&) {
            throw std::runtime_error{"out of memory, say"};
          });
    }));
  }
}

TEST_CASE("a process that returns while it is awaited is noticed at once, with where that was",
          "[at_least_2]") {
  if (mpi_tests::lacks_processes(2)) return;
  auto const bytes = GENERATE(std::size_t{4}, std::size_t{1} << 22U);
  auto const all = endings(processes().size(), far, [&](mpi_communicator& comm) {
    if (comm.rank() == rank_id{0}) receive(comm, 1, bytes);
    if (comm.rank() == rank_id{2}) receive(comm, 0, bytes);
  });
  for (auto const& it : all) {
    REQUIRE(it.is("peer_failed"));
    REQUIRE(it.failed_rank == 1);
    REQUIRE(it.seconds < 20);
    REQUIRE_THAT(it.what(), mentions("rank 1 has left the world: rank 0 awaits rank 1") &&
                                mentions("exchange 1, round 3 of plan abcdef"));
  }
}

TEST_CASE("messages of a process arrive, even if it has left", "[at_least_2]") {
  if (mpi_tests::lacks_processes(2)) return;
  auto const all = endings(2, far, [](mpi_communicator& comm) {
    for (int i = 0; i < 20; ++i)
      if (comm.rank() == rank_id{1}) send(comm, 0);
    if (comm.rank() == rank_id{0}) std::this_thread::sleep_for(100ms);
    for (int i = 0; i < 20; ++i)
      if (comm.rank() == rank_id{0}) receive(comm, 1);
  });
  for (auto const& it : all) REQUIRE(it.what() == ": ");
}

TEST_CASE("a process that stalls is named, also by those who wait for one that waits for it",
          "[at_least_3][deadline]") {
  if (mpi_tests::lacks_processes(3)) return;
  auto const ranks = processes().size();
  auto const all = endings(ranks, soon, [&](mpi_communicator& comm) {
    auto const me = comm.rank().value();
    if (me == 1) {
      std::this_thread::sleep_for(5s);
      return send(comm, 0);
    }
    receive(comm, me == 0 ? 1 : me == 2 ? 0 : 2);
  });
  auto found_out = 0;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    CAPTURE(rank, all[rank].what());
    REQUIRE(all[rank].failed_rank == 1);
    REQUIRE((all[rank].is("peer_failed") || all[rank].is("deadline_exceeded")));
    REQUIRE_THAT(all[rank].what(), mentions("no sign of rank 1 within 2000 ms: rank") &&
                                       mentions("exchange 1, round 3 of plan abcdef"));
    found_out += all[rank].is("deadline_exceeded") ? 1 : 0;
  }
  REQUIRE(found_out > 0);
  REQUIRE(all[1].is("peer_failed"));  // it awoke, and was told
}

TEST_CASE("a process that stalls while it reads lent memory is named, and gets an error",
          "[at_least_2][deadline]") {
  if (mpi_tests::lacks_processes(2)) return;
  auto const mine = processes().rank() == 0 ? fssdp::mpi_options{.deadline = 1s} : far;
  auto const all = endings(2, mine, [&](mpi_communicator& comm) {
    if (comm.rank() == rank_id{1}) lend(comm, 0, 4000, [] { std::this_thread::sleep_for(2500ms); });
    if (comm.rank() == rank_id{0}) lend(comm, 1, 4000, [] {});
    receive(comm, 1 - comm.rank().value());
  });
  for (auto const& it : all) {
    CAPTURE(it.what());
    REQUIRE(it.failed_rank == 1);
    REQUIRE_THAT(it.what(), mentions("no sign of rank 1 within 1000 ms: rank"));
  }
  REQUIRE(all[0].is("deadline_exceeded"));
  REQUIRE(all[1].is("peer_failed"));
}

TEST_CASE("a process that leaves while others lend to it or borrow from it is named by all",
          "[at_least_2]") {
  if (mpi_tests::lacks_processes(2)) return;
  auto const bytes = GENERATE(std::size_t{4000}, std::size_t{1} << 22U);
  auto const all = endings(processes().size(), far, [&](mpi_communicator& comm) {
    auto const out = std::vector<std::byte>(bytes);
    if (comm.rank() == rank_id{1}) return;
    comm.lend(
        [&](auto& batch) {
          batch.label(label);
          batch.send(out, rank_id{1});
          batch.borrow(bytes, rank_id{1});
        },
        [](auto const&) {});
  });
  for (auto const& it : all) {
    CAPTURE(it.what());
    REQUIRE(it.is("peer_failed"));
    REQUIRE(it.failed_rank == 1);
    REQUIRE(it.seconds < 20);
  }
}

TEST_CASE("a rank that waits alone gives up at the deadline, in every collective call",
          "[at_least_2][deadline]") {
  if (mpi_tests::lacks_processes(2)) return;
  auto const all = endings(2, soon, [](mpi_communicator& comm) {
    auto const where = comm.handle();
    auto met = 0;
    for (auto const& meet : std::vector<std::function<void()>>{
             [&] { (void)fssdp::mpi_topology(where, {}, {.deadline = 200ms}); },
             [&] {
               (void)fssdp::mpi_ref{where, {.deadline = 200ms}};
             },
             [&] {
               (void)mpi_communicator{where, {.deadline = 200ms}};
             },
             [&] {
               auto world = fssdp::mpi_world{{.deadline = 200ms}};
               try {
                 world.run_in(where, [](mpi_communicator&) {});
               } catch (fssdp::deadline_exceeded const&) {
                 REQUIRE_THROWS_AS(world.run([](mpi_communicator&) {}), fssdp::argument_error);
                 throw;
               }
             }}) {
      if (comm.rank() == rank_id{1}) break;  // takes part in none
      try {
        meet();
        ++met;
      } catch (fssdp::deadline_exceeded const& error) {
        if (error.failed_rank() != rank_id{-1}) ++met;
      }
    }
    if (met != 0) throw std::logic_error{"ranks have met that were not there"};
    throw std::runtime_error{"out of memory, say"};  // what has begun cannot end: no more of this
  });
  for (auto const& it : all) {
    REQUIRE(it.is("exception"));
    REQUIRE_THAT(it.what(), mentions("out of memory, say"));
  }
}

TEST_CASE("a rank that comes after the others have given up gives up as well",
          "[at_least_2][deadline]") {
  if (mpi_tests::lacks_processes(2)) return;
  auto const all = endings(2, far, [](mpi_communicator& comm) {
    auto given_up = 0;
    if (comm.rank() == rank_id{1}) std::this_thread::sleep_for(1s);
    try {
      (void)fssdp::mpi_ref{comm.handle(), {.deadline = 300ms}};
    } catch (fssdp::deadline_exceeded const&) {
      ++given_up;
    }
    if (given_up == 1) throw std::runtime_error{"out of memory, say"};
  });
  for (auto const& it : all) REQUIRE(it.is("exception"));
}

TEST_CASE("a function that throws after a message has arrived closes the other communicators, too",
          "[at_least_2]") {
  if (mpi_tests::lacks_processes(2)) return;
  auto const all = endings(2, far, [](mpi_communicator& comm) {
    auto other = comm.duplicate();
    auto const peer = rank_id{1 - comm.rank().value()};
    auto in = std::vector<std::byte>(4);
    auto thread = std::jthread{[&] {
      auto there = std::vector<std::byte>(4);
      auto const here = there;
      try {
        for (;;)
          other.exchange([&](auto& batch) {
            batch.recv(there, peer);
            batch.send(here, peer);
          });
      } catch (std::runtime_error const&) {  // peer_failed; there, what was thrown
      }
    }};
    auto const first = comm.rank() == rank_id{0};
    if (first) {
      send(comm, 1);
      receive(comm, 1);  // never comes
    } else {
      comm.forward(
          [&](auto& batch) {
            batch.label(label);
            batch.recv(in, peer);
          },
          [](std::size_t, std::span<std::byte const>, auto&) {
            throw std::runtime_error{"out of memory, say"};
          });
    }
  });
  all_name_rank_1(all);
}

TEST_CASE("a communicator that has failed stays so, and so do its duplicates", "[at_least_2]") {
  if (mpi_tests::lacks_processes(2)) return;
  auto const all = endings(2, far, [](mpi_communicator& comm) {
    auto other = comm.duplicate();
    if (comm.rank() == rank_id{0}) send(comm, 1);
    if (comm.rank() == rank_id{1}) receive(comm, 0);  // so that both have their duplicate
    try {
      if (comm.rank() == rank_id{1}) throw std::runtime_error{"out of memory, say"};
      receive(comm, 1);
    } catch (fssdp::peer_failed const&) {
    } catch (std::runtime_error const&) {
      try {
        comm.exchange([](auto&) { throw std::runtime_error{"out of memory, say"}; });
      } catch (std::runtime_error const&) {
      }
    }
    auto refused = 0;
    auto const try_to = [&](auto call) {
      try {
        call();
      } catch (fssdp::peer_failed const& error) {
        refused += comm.rank() == rank_id{0} && error.failed_rank() == rank_id{1} ? 1 : 0;
      } catch (std::runtime_error const& error) {  // whose fault it is gets that again
        refused += comm.rank() == rank_id{1} && error.what() == std::string{"out of memory, say"};
      }
    };
    try_to([&] { comm.exchange([](auto&) {}); });
    try_to([&] { other.exchange([](auto&) {}); });
    try_to([&] { (void)other.duplicate(); });
    if (refused != 3) throw std::logic_error{"a communicator goes on"};
  });
  for (auto const& it : all) REQUIRE(it.what() == ": ");
}

TEST_CASE("after a failure the next run works", "[at_least_2]") {
  if (mpi_tests::lacks_processes(2)) return;
  for (auto const turn : {1, 2, 3}) {
    CAPTURE(turn);
    auto const all = endings(2, far, [](mpi_communicator& comm) {
      if (comm.rank() == rank_id{0}) receive(comm, 1);
    });
    REQUIRE(all[0].failed_rank == 1);
    for (auto const& it : endings(2, far, [](mpi_communicator& comm) {
           if (comm.rank() == rank_id{0}) receive(comm, 1);
           if (comm.rank() == rank_id{1}) send(comm, 0);
         }))
      REQUIRE(it.what() == ": ");
  }
}

namespace {

/// How one rank sees an exchange with the other.
struct view {
  fssdp::batch_label named = {};
  std::vector<std::size_t> sends = {4};
  std::vector<std::size_t> receives = {4};
  int exchanges_before = 0;
};

/// Two ranks exchange under their views, a third looks on, if there is one. Both blame each other;
/// rank 1 sees it with its own eyes, so it is the one that the third awaits: rank 0 may have all
/// that it wants, and leave.
void find_out(view const& of_0, view const& of_1, char const* a, char const* b) {
  auto const ranks = std::min(processes().size(), 3);
  auto const all = endings(ranks, far, [&](mpi_communicator& comm) {
    if (comm.rank() == rank_id{2}) return receive(comm, 1);
    auto const& mine = comm.rank() == rank_id{0} ? of_0 : of_1;
    auto const peer = rank_id{1 - comm.rank().value()};
    auto out = std::vector<std::byte>(1 << 22U);
    auto in = std::vector<std::byte>(1 << 22U);
    for (int i = 0; i < mine.exchanges_before; ++i) comm.exchange([](auto&) {});
    comm.exchange([&](auto& batch) {
      batch.label(mine.named);
      for (auto const size : mine.sends) batch.send(std::span{out}.first(size), peer);
      for (auto const size : mine.receives) batch.recv(std::span{in}.first(size), peer);
    });
  });
  REQUIRE(all[0].failed_rank == 1);
  REQUIRE(all[1].failed_rank == 0);
  REQUIRE((all[0].is("ranks_disagree") || all[1].is("ranks_disagree")));
  if (ranks > 2) REQUIRE((all[2].failed_rank == 0 || all[2].failed_rank == 1));
  for (auto const& it : all) REQUIRE(it.seconds < 20);
  for (std::size_t rank = 0; rank < 2; ++rank)  // the third may see no more than one who has left
    REQUIRE_THAT(all[rank].what(), mentions("disagree") && mentions(a) && mentions(b));
}

}  // namespace

TEST_CASE("processes in different exchanges name each other, and what differs", "[at_least_2]") {
  if (mpi_tests::lacks_processes(2)) return;
  SECTION("another plan") {
    find_out({.named = {0xaaa, 0}}, {.named = {0xbbb, 0}}, "plan aaa", "plan bbb");
  }
  SECTION("another round of the same plan") {
    find_out({.named = {0xaaa, 10}}, {.named = {0xaaa, 11}}, "round 10", "round 11");
  }
  SECTION("another exchange") {
    find_out({.exchanges_before = 2}, {.exchanges_before = 1}, "exchange", "there");
  }
  SECTION("longer") {
    find_out({.sends = {8}, .receives = {8}}, {}, "message 0 should have", "bytes");
  }
  SECTION("longer, and large") {
    find_out({.sends = {1 << 22U}, .receives = {4}}, {.receives = {1 << 20U}},
             "message 0 should have 1048576 bytes", "4194304");
  }
  SECTION("shorter, and large") {
    find_out({.sends = {1 << 20U}, .receives = {4}}, {.receives = {1 << 22U}},
             "message 0 should have 4194304 bytes", "1048576");
  }
  SECTION("other sizes behind equal ones") {
    find_out({.sends = {4, 16}, .receives = {4, 8}}, {.sends = {4, 4}, .receives = {4, 4}},
             "message 1 should have", "bytes");
  }
  SECTION("other sizes behind very many equal ones") {
    auto const equal = std::vector<std::size_t>(40, 8);
    auto longer = equal;
    longer.back() = 9;
    find_out({.sends = longer, .receives = equal}, {.sends = equal, .receives = equal},
             "should have 320 bytes", "they have 321");
  }
  SECTION("another number of messages") {
    find_out({.sends = {4, 4}, .receives = {4, 4}}, {}, "messages expected", "sent");
  }
}

TEST_CASE("processes that divide messages at different sizes get an error", "[at_least_2]") {
  if (mpi_tests::lacks_processes(2)) return;
  auto const at = std::size_t{processes().rank() == 0 ? 100U : 50U};
  auto const all = endings(2, {.most_message_bytes = at}, [](mpi_communicator& comm) {
    if (comm.rank() == rank_id{0}) send(comm, 1, 1000);
    if (comm.rank() == rank_id{1}) receive(comm, 0, 1000);
    if (comm.rank() == rank_id{0}) receive(comm, 1, 1000);
  });
  REQUIRE(all[1].is("ranks_disagree"));
  REQUIRE(all[0].is("peer_failed"));
  REQUIRE_THAT(all[0].what(), mentions("cut into 50 bytes here, 100 there"));
}

TEST_CASE("a deadline or a size that is not positive is refused") {
  auto const with = [](fssdp::mpi_options const& options) {
    (void)processes().total(0);
    auto const comm = mpi_communicator{MPI_COMM_SELF, options};
  };
  REQUIRE_THROWS_WITH(with({.deadline = 0ms}), mentions("deadline is 0 ms"));
  REQUIRE_THROWS_WITH(with({.most_message_bytes = 0}), mentions("at most 0 bytes"));
  REQUIRE_THROWS_WITH(with({.most_message_bytes = std::size_t{1} << 31U}),
                      mentions("at most 2147483648 bytes"));
}

TEST_CASE("an MPI without ULFM is an error that says so, and how to restart", "[at_least_2]") {
  if (mpi_tests::lacks_processes(2)) return;
#ifdef MPIX_ERR_PROC_FAILED
  return skip_test("this MPI has ULFM");
#endif
  auto const refused = [&](auto call) {
    auto const all = endings(2, {}, [&](mpi_communicator& comm) { call(comm); });
    for (auto const rank : {0U, 1U}) {
      CHECK(all[rank].is("argument_error"));
      CHECK_THAT(all[rank].what(), mentions("has no ULFM") && mentions("its last checkpoint"));
    }
  };
  refused([](mpi_communicator& comm) { (void)comm.find_lost(); });
  refused([](mpi_communicator& comm) {
    (void)comm.without(std::vector{rank_id{1 - comm.rank().value()}});
  });
}
