// SPDX-License-Identifier: Apache-2.0
/// Messages are passed on as they come in, down chains and trees and in any order; whatever goes
/// wrong on the way, no rank waits for it forever.
#include <algorithm>
#include <chrono>
#include <latch>
#include <span>
#include <stdexcept>
#include <vector>

#include "catch.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/faulty.hpp"
#include "fssdp/comm/thread.hpp"
#include "support/allocation_counter.hpp"
#include "support/dice.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::rank_id;
using fssdp::thread_communicator;

static_assert(fssdp::forwarding_communicator<fssdp::counting<thread_communicator>>);
static_assert(fssdp::forwarding_communicator<fssdp::faulty<thread_communicator>>);

namespace {

template <class T>
[[nodiscard]] std::span<std::byte const> bytes(T const& value) {
  return std::as_bytes(std::span{&value, 1});
}
template <class T>
[[nodiscard]] std::span<std::byte> room(T& value) {
  return std::as_writable_bytes(std::span{&value, 1});
}
[[nodiscard]] int number(std::span<std::byte const> from) {
  return *reinterpret_cast<int const*>(from.data());
}
constexpr auto ignore = [](std::size_t, std::span<std::byte const>, auto&) {};

enum class reading { copied, borrowed };

/// A number of rank 0 goes down a tree: rank r gets it from rank (r - 1) / arity, adds one, and
/// passes it on. Returns what the rank got.
template <class Comm>
int down_the_tree(Comm& comm, int arity, int value, reading how = reading::copied) {
  auto const me = comm.rank().value();
  auto got = value;
  auto next = value + 1;
  auto children = std::size_t{0};
  comm.forward(
      [&](auto& batch) {
        for (auto child = me * arity + 1; child <= (me + 1) * arity && child < comm.size();
             ++child) {
          ++children;
          if (me == 0)
            batch.send(bytes(next), rank_id{child});
          else
            batch.hold(bytes(next), rank_id{child});
        }
        if (me == 0) return;
        auto const parent = rank_id{(me - 1) / arity};
        if (how == reading::copied)
          batch.recv(room(got), parent);
        else
          batch.borrow(sizeof(int), parent);
      },
      [&](std::size_t, std::span<std::byte const> content, auto& gate) {
        got = number(content);
        next = got + 1;
        for (std::size_t child = 0; child < children; ++child) gate.release(child);
      });
  return got;
}

/// How far a rank is from the root.
[[nodiscard]] int depth(int rank, int arity) {
  auto steps = 0;
  for (; rank != 0; rank = (rank - 1) / arity) ++steps;
  return steps;
}

/// What is wrong with the end of a run that one rank spoiled: it has an Error, unless it noticed
/// nothing; all others name it.
template <class Error>
[[nodiscard]] int wrong_ends(support::fallout const& result, int failed_rank) {
  auto wrong = 0;
  for (std::size_t rank = 0; rank < result.of_rank.size(); ++rank) {
    auto const& error = result.of_rank[rank];
    auto const is_failed_rank = static_cast<int>(rank) == failed_rank;
    wrong +=
        (is_failed_rank ? support::is<Error>(error) : support::failed_rank(error) == failed_rank)
            ? 0
            : 1;
  }
  return wrong;
}

/// Rank 0 sends to 1, which is to pass it on to 2 when it comes; what 1 then does with its gate.
/// Messages that go out of 1: one that is held, for 2, and one that is not, for 0.
template <class Deed>
[[nodiscard]] support::fallout chain_of_three(Deed deed) {
  auto world = fssdp::thread_world{3};
  return support::fallout_of(world, [&](thread_communicator& comm) {
    auto const me = comm.rank().value();
    auto const value = 7;
    comm.forward(
        [&](auto& batch) {
          if (me == 0) batch.send(bytes(value), rank_id{1});
          if (me == 1) batch.hold(bytes(value), rank_id{2});
          if (me == 1) batch.send(bytes(value), rank_id{0});
          if (me != 1) batch.borrow(sizeof(int), rank_id{1});
          if (me == 1) batch.borrow(sizeof(int), rank_id{0});
        },
        [&](std::size_t, std::span<std::byte const>, auto& gate) {
          if (me == 1) deed(gate);
        });
    comm.exchange([&](auto& batch) {  // nobody gets away
      for (auto const peer : fssdp::first_n<rank_id>(3))
        if (peer != comm.rank()) batch.send({}, peer);
      for (auto const peer : fssdp::first_n<rank_id>(3))
        if (peer != comm.rank()) batch.recv({}, peer);
    });
  });
}

}  // namespace

TEST_CASE("a number is forwarded down chains and trees, copied or borrowed, several times") {
  for (int ranks = 1; ranks <= 6; ++ranks)
    for (int arity = 1; arity <= 3; ++arity)
      for (auto const how : {reading::copied, reading::borrowed}) {
        CAPTURE(ranks, arity, how);
        auto const got = support::on_all_ranks(ranks, [&](thread_communicator& comm) {
          auto all = std::vector<int>{};
          for (int turn = 0; turn < 3; ++turn)
            all.push_back(down_the_tree(comm, arity, 10 * turn, how));
          return all;
        });
        for (int rank = 0; rank < ranks; ++rank) {
          auto const d = depth(rank, arity);
          REQUIRE(got[static_cast<std::size_t>(rank)] == std::vector{d, 10 + d, 20 + d});
        }
      }
}

TEST_CASE("messages arrive in the order in which they are released") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    auto draw = support::dice{seed};
    auto const ranks = draw.between(2, 6);
    auto const of_each = static_cast<std::size_t>(draw.between(1, 3));
    auto const count = static_cast<std::size_t>(ranks - 1) * of_each;
    auto order = std::vector<std::size_t>{};
    for (std::size_t i = 0; i < count; ++i) order.push_back(i);
    draw.shuffle(order);
    // Rank 0 asks for one after the other; who is asked, answers.
    auto const seen = support::on_all_ranks(ranks, [&](thread_communicator& comm) {
      auto const me = comm.rank().index();
      auto const zero = 0;
      auto answers = std::vector<int>(count);
      auto record = std::vector<std::size_t>{};
      for (std::size_t i = 0; i < count; ++i) answers[i] = static_cast<int>(100 + i);
      comm.forward(
          [&](auto& batch) {
            for (std::size_t i = 0; i < count; ++i) {
              auto const peer = rank_id{i / of_each + 1};
              if (me == 0 && i == order.front()) batch.send(bytes(zero), peer);
              if (me == 0 && i != order.front()) batch.hold(bytes(zero), peer);
              if (me == 0) batch.borrow(sizeof(int), peer);
              if (peer == comm.rank()) batch.hold(bytes(answers[i]), rank_id{0});
              if (peer == comm.rank()) batch.borrow(sizeof(int), rank_id{0});
            }
          },
          [&](std::size_t wanted, std::span<std::byte const> content, auto& gate) {
            if (me != 0) {
              gate.release(wanted);
            } else {
              if (number(content) == static_cast<int>(100 + wanted)) record.push_back(wanted);
              if (record.size() < count) gate.release(order[record.size()]);
            }
          });
      return record;
    });
    REQUIRE(seen.front() == order);
  }
}

TEST_CASE("where nothing is held, forward ends like an exchange, and works together with one") {
  auto const got = support::on_all_ranks(3, [](thread_communicator& comm) {
    auto const mine = comm.rank().value() + 1;
    auto all = std::vector<int>(3);
    auto calls = 0;
    auto const post = [&](auto& batch) {
      for (auto const peer : fssdp::first_n<rank_id>(3)) {
        if (peer == comm.rank()) continue;
        batch.send(bytes(mine), peer);
        batch.send({}, peer);
        batch.recv(room(all[peer.index()]), peer);
        batch.recv({}, peer);
      }
    };
    auto const count = [&](std::size_t, std::span<std::byte const>, auto&) { ++calls; };
    comm.forward([](auto&) {}, count);  // a batch without messages
    comm.forward(post, count);
    if (comm.rank() == rank_id{1})
      comm.exchange(post);
    else
      comm.forward(post, ignore);
    return std::vector{all[0], all[1], all[2], calls};
  });
  REQUIRE(got == std::vector<std::vector<int>>{{0, 2, 3, 4}, {1, 0, 3, 4}, {1, 2, 0, 4}});
}

TEST_CASE("releasing a held message twice or never is an argument_error, and no rank hangs") {
  auto const ends = [](auto deed) {
    return wrong_ends<fssdp::argument_error>(chain_of_three(deed), 1);
  };
  REQUIRE(support::text(chain_of_three([](auto& gate) { gate.release(0); }).of_run) == "");
  REQUIRE(ends([](auto&) {}) == 0);
  REQUIRE(ends([](auto& gate) { gate.release(0), gate.release(0); }) == 0);
  REQUIRE(ends([](auto& gate) { gate.release(1); }) == 0);
  REQUIRE(ends([](auto& gate) { gate.release(2); }) == 0);
  REQUIRE(ends([](auto& gate) { gate.release(std::size_t(-1)); }) == 0);
  REQUIRE_THAT(support::text(chain_of_three([](auto&) {}).of_run),
               mentions("1 deferred sends are left"));
  REQUIRE_THAT(support::text(chain_of_three([](auto& gate) { gate.release(2); }).of_run),
               mentions("message 2") && mentions("one of 2"));
  REQUIRE_THAT(support::text(chain_of_three([](auto& gate) { gate.release(1); }).of_run),
               mentions("message 1") && mentions("expected a deferred send"));
}

TEST_CASE("a held message that depends on nothing and is not released is an error") {
  auto world = fssdp::thread_world{2};
  auto const result = support::fallout_of(world, [](thread_communicator& comm) {
    auto value = 1;
    comm.forward(
        [&](auto& batch) {
          if (comm.rank() == rank_id{0}) batch.hold(bytes(value), rank_id{1});
          if (comm.rank() == rank_id{1}) batch.recv(room(value), rank_id{0});
        },
        ignore);
  });
  REQUIRE(wrong_ends<fssdp::argument_error>(result, 0) == 0);
}

TEST_CASE(
    "an exception while messages are forwarded gives every other rank an error that names the "
    "rank") {
  struct out_of_order {};
  auto const result = chain_of_three([](auto&) { throw out_of_order{}; });
  REQUIRE(wrong_ends<out_of_order>(result, 1) == 0);
  REQUIRE(support::is<out_of_order>(result.of_run));
}

TEST_CASE("a rank that leaves is named down the tree, and a world works again") {
  auto world = fssdp::thread_world{6};
  for (int gone = 0; gone < 3; ++gone) {
    CAPTURE(gone);
    auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
      if (comm.rank() == rank_id{gone}) return;
      (void)down_the_tree(comm, 2, 1);
    });
    for (int rank = 0; rank < 6; ++rank) {  // at least its children
      auto const& error = result.of_rank[static_cast<std::size_t>(rank)];
      auto const child = rank != gone && rank != 0 && (rank - 1) / 2 == gone;
      REQUIRE((child ? support::is<fssdp::peer_failed>(error) && support::failed_rank(error) == gone
                     : error == nullptr || support::failed_rank(error) == gone));
    }
    auto const again = support::on_all_ranks(
        world, [](thread_communicator& comm) { return down_the_tree(comm, 2, 1); });
    REQUIRE(again == std::vector{1, 2, 2, 3, 3, 3});
  }
}

TEST_CASE("a rank that stalls is named even where all others wait for each other") {
  // 0 gets from 1, which first needs 3; 1 gets from 2 as well, which first needs 0.
  auto world = fssdp::thread_world{{.ranks = 4, .deadline = std::chrono::milliseconds{300}}};
  auto others_gone = std::latch{3};
  auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
    auto const me = comm.rank().value();
    auto const value = 1;
    if (me == 3) return others_gone.wait();
    try {
      comm.forward(
          [&](auto& batch) {
            auto const peer = [&](int to, int from) {
              batch.hold(bytes(value), rank_id{to});
              batch.borrow(sizeof(int), rank_id{from});
            };
            if (me == 0) peer(2, 1);
            if (me == 1) peer(0, 2);
            if (me == 1) batch.borrow(sizeof(int), rank_id{3});
            if (me == 2) peer(1, 0);
          },
          [&](std::size_t wanted, std::span<std::byte const>, auto& gate) {
            if (me != 1 || wanted == 1) gate.release(0);
          });
    } catch (...) {
      others_gone.count_down();
      throw;
    }
    others_gone.count_down();
  });
  for (std::size_t rank = 0; rank < 3; ++rank)
    REQUIRE(support::failed_rank(result.of_rank[rank]) == 3);
  REQUIRE(result.of_rank[3] == nullptr);
}

TEST_CASE("a rank in another collective is detected by its label, or its sizes") {
  for (int other = 0; other < 3; ++other)
    for (auto const different : {0, 1}) {  // the label, the size
      CAPTURE(other, different);
      auto world = fssdp::thread_world{3};
      auto const result = support::fallout_of(world, [&](thread_communicator& comm) {
        auto const me = comm.rank().value();
        auto const odd = me == other;
        auto in = std::vector<std::byte>(odd && different == 1 ? 2 : 1);
        auto const out = in;
        auto const post = [&](auto& batch) {
          set_label(batch, {.plan = 3, .round = odd && different == 0 ? 1 : 2});
          batch.send(out, rank_id{(me + 1) % 3});
          batch.recv(in, rank_id{(me + 2) % 3});
        };
        if (odd)
          comm.exchange(post);
        else
          comm.forward(post, ignore);
      });
      REQUIRE(support::is<fssdp::ranks_disagree>(result.of_run));
      for (auto const& error : result.of_rank) REQUIRE(support::is<fssdp::transport_error>(error));
    }
}

TEST_CASE("an exception from post is thrown before anything is sent, and the next batch works") {
  auto const got = support::on_all_ranks(2, [](thread_communicator& comm) {
    auto value = 3;
    auto thrown = 0;
    try {
      comm.forward(
          [&](auto& batch) {
            batch.hold(bytes(value), rank_id{1 - comm.rank().value()});
            throw std::runtime_error{"on second thoughts"};
          },
          ignore);
    } catch (std::runtime_error const&) {
      thrown = 10;
    }
    return thrown + down_the_tree(comm, 1, 5);
  });
  REQUIRE(got == std::vector{15, 16});
}

TEST_CASE("forward does not allocate, once the largest batch has been seen") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  auto const allocations = support::on_all_ranks(5, [](thread_communicator& comm) {
    auto const pass = [&] {
      for (int arity = 3; arity > 0; --arity)
        (void)down_the_tree(comm, arity, 1, arity == 2 ? reading::borrowed : reading::copied);
    };
    pass();
    return support::allocations_in([&] { pass(), pass(), pass(); });
  });
  REQUIRE(allocations == std::vector<long>(5, 0));
}

TEST_CASE("forwarded messages are counted: held or not, copied or borrowed") {
  auto const counts = support::on_all_ranks(3, [](thread_communicator& comm) {
    auto counted = fssdp::counting{comm};
    (void)down_the_tree(counted, 1, 1);
    (void)down_the_tree(counted, 1, 1, reading::borrowed);
    return counted.counts();
  });
  auto const of = [](std::uint64_t out, std::uint64_t in) {
    return fssdp::exchange_counts{.exchanges = 2,
                                  .messages_sent = 2 * out,
                                  .bytes_sent = 8 * out,
                                  .messages_received = 2 * in,
                                  .bytes_received = 8 * in,
                                  .bytes_borrowed = 4 * in};
  };
  REQUIRE(counts == std::vector{of(1, 0), of(1, 1), of(0, 1)});
}
