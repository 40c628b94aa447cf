// SPDX-License-Identifier: Apache-2.0
/// When a rank throws, all others get an error, and none reads memory that it has freed.
#include <memory>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/faulty.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::fault_moment;
using fssdp::injected_fault;
using fssdp::rank_id;
using fssdp::thread_communicator;

namespace {

/// Heap buffers of one rank; they die with it.
struct rank_memory {
  explicit rank_memory(std::size_t ranks, std::size_t size)
      : out{std::make_unique<std::vector<int>>(size)} {
    for (std::size_t rank = 0; rank < ranks; ++rank)
      in.push_back(std::make_unique<std::vector<int>>(size));
  }
  std::unique_ptr<std::vector<int>> out;
  std::vector<std::unique_ptr<std::vector<int>>> in;
};

template <class Batch>
void send_to_all(Batch& batch, rank_id me, int ranks, rank_memory const& memory) {
  for (auto const peer : fssdp::first_n<rank_id>(ranks))
    if (peer != me) batch.send(std::as_bytes(std::span{*memory.out}), peer);
}

/// Everybody sends everything to everybody, copied or lent.
template <class Comm>
void all_to_all(Comm& comm, std::size_t size) {
  auto memory = rank_memory{static_cast<std::size_t>(comm.size()), size};
  auto const me = comm.rank();
  comm.exchange([&](auto& batch) {
    send_to_all(batch, me, comm.size(), memory);
    for (auto const peer : fssdp::first_n<rank_id>(comm.size()))
      if (peer != me) batch.recv(std::as_writable_bytes(std::span{*memory.in[peer.index()]}), peer);
  });
}
template <class Comm>
void all_to_all_lent(Comm& comm, std::size_t size) {
  auto memory = rank_memory{static_cast<std::size_t>(comm.size()), size};
  auto const me = comm.rank();
  comm.lend(
      [&](auto& batch) {
        send_to_all(batch, me, comm.size(), memory);
        for (auto const peer : fssdp::first_n<rank_id>(comm.size()))
          if (peer != me) batch.borrow(size * sizeof(int), peer);
      },
      [&](std::span<std::span<std::byte const> const> lent) {
        for (std::size_t i = 0; i < lent.size(); ++i)
          std::memcpy(memory.in[i]->data(), lent[i].data(), lent[i].size());
      });
}

/// Five exchanges, of which the failed rank breaks one; not the last, as some may be through with
/// it.
template <class Exchange>
[[nodiscard]] support::fallout break_down(fssdp::thread_world& world, int failed_rank,
                                          fault_moment when, int at, Exchange exchange) {
  return support::fallout_of(world, [&](thread_communicator& comm) {
    auto const mine = comm.rank() == rank_id{failed_rank};
    auto breaks = fssdp::faulty{comm, {.exchange = mine ? at : 0, .moment = when}};
    for (int turn = 0; turn < 5; ++turn) exchange(breaks);
  });
}

/// What is wrong with the fallout; empty if every other rank names the failed rank, and run()
/// throws what the failed rank threw.
[[nodiscard]] std::string complaint(support::fallout const& result, int failed_rank) {
  if (!support::is<injected_fault>(result.of_run)) return "run: " + support::text(result.of_run);
  for (std::size_t rank = 0; rank < result.of_rank.size(); ++rank) {
    auto const& error = result.of_rank[rank];
    auto const expected =
        static_cast<int>(rank) == failed_rank
            ? support::is<injected_fault>(error)
            : support::is<fssdp::peer_failed>(error) && support::failed_rank(error) == failed_rank;
    if (!expected) return "rank " + std::to_string(rank) + ": " + support::text(error);
  }
  return {};
}

}  // namespace

TEST_CASE("whenever a rank throws, every other rank gets an error that names it") {
  for (auto const ranks : {2, 3, 5})
    for (int failed_rank = 0; failed_rank < ranks; ++failed_rank)
      for (auto const when :
           {fault_moment::before_exchange, fault_moment::in_post, fault_moment::behind_post,
            fault_moment::in_visit, fault_moment::behind_exchange})
        for (auto const at : {1, 3}) {
          CAPTURE(ranks, failed_rank, static_cast<int>(when), at);
          auto world = fssdp::thread_world{ranks};
          auto const copied =
              break_down(world, failed_rank, when, at, [](auto& comm) { all_to_all(comm, 100); });
          REQUIRE(complaint(copied, failed_rank) == "");
          auto const lent = break_down(world, failed_rank, when, at,
                                       [](auto& comm) { all_to_all_lent(comm, 100); });
          REQUIRE(complaint(lent, failed_rank) == "");
        }
}

TEST_CASE("no rank reads what a failing rank frees, for any interleaving of threads") {
  constexpr auto ranks = 4;
  auto world = fssdp::thread_world{ranks};
  for (int seed = 1; seed <= support::law_instances / 100 + 1; ++seed) {
    CAPTURE(seed);
    auto draw = support::dice{static_cast<std::uint64_t>(seed)};
    auto const failed_rank = draw.between(0, ranks - 1);
    auto const at = draw.between(1, 4);
    auto const lent = break_down(world, failed_rank, fault_moment::in_visit, at,
                                 [](auto& comm) { all_to_all_lent(comm, 5000); });
    REQUIRE(complaint(lent, failed_rank) == "");
    auto const copied = break_down(world, failed_rank, fault_moment::behind_post, at,
                                   [](auto& comm) { all_to_all(comm, 5000); });
    REQUIRE(complaint(copied, failed_rank) == "");
  }
}

TEST_CASE("the error of a peer tells what went wrong") {
  auto world = fssdp::thread_world{2};
  auto const result =
      break_down(world, 1, fault_moment::in_post, 2, [](auto& comm) { all_to_all(comm, 1); });
  REQUIRE_THAT(support::text(result.of_rank[0]),
               mentions("rank 1 has failed") && mentions("in the post of exchange 2"));
}

TEST_CASE("run throws what the first rank threw, not what the others got") {
  auto world = fssdp::thread_world{4};
  REQUIRE_THROWS_AS(world.run([](thread_communicator& comm) {
    if (comm.rank() == rank_id{2}) throw injected_fault{"out of order"};
    all_to_all(comm, 1);
  }),
                    injected_fault);
}

TEST_CASE("an exception of any type goes through") {
  auto world = fssdp::thread_world{2};
  auto const result = support::fallout_of(world, [](thread_communicator& comm) {
    if (comm.rank() == rank_id{0}) throw 42;
    all_to_all(comm, 1);
  });
  REQUIRE(support::is<int>(result.of_run));
  REQUIRE(support::failed_rank(result.of_rank[1]) == 0);
}

TEST_CASE("a world works again after a failure") {
  auto world = fssdp::thread_world{3};
  for (int turn = 0; turn < 3; ++turn) {
    auto const result = break_down(world, turn, fault_moment::in_visit, 1,
                                   [](auto& comm) { all_to_all_lent(comm, 10); });
    REQUIRE(complaint(result, turn) == "");
    REQUIRE_NOTHROW(world.run([](thread_communicator& comm) {
      all_to_all(comm, 10);
      all_to_all_lent(comm, 10);
    }));
  }
}

TEST_CASE("a world of one rank may throw, too") {
  auto world = fssdp::thread_world{1};
  REQUIRE_THROWS_AS(world.run([](thread_communicator&) { throw injected_fault{"out of order"}; }),
                    injected_fault);
  REQUIRE_NOTHROW(world.run([](thread_communicator&) {}));
}
