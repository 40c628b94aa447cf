// SPDX-License-Identifier: Apache-2.0
/// What every communicator promises, law by law. A model passes with a short file of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "catch.hpp"
#include "contract/message_pattern.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/communicator.hpp"
#include "support/differences.hpp"
#include "support/rank_buffers.hpp"

namespace contract {

/// Between whom the communicators of a model are.
struct world {
  int ranks = 1;
  std::chrono::milliseconds deadline = std::chrono::seconds{30};  ///< of a wait
};

/// What one rank does.
template <class Comm>
using work_of = std::function<void(Comm&)>;

/// Model::communicator is the type that the laws are about; Model::run(world, work) calls
/// work(comm) on every rank, each in a thread of its own, and throws what one of them has thrown.
///
/// Ranks may be processes, too, which all check the contract: run then calls work for the rank that
/// this process is, if it is one of them; Model::total(long) is the sum over all processes, and
/// Model::most_ranks() says how many there are. Laws that need more are left out.
template <class Model>
class communicator_contract {
  using communicator = typename Model::communicator;
  using differences = support::differences;
  static_assert(fssdp::communicator<communicator>);

 public:
  /// How much of it a model can afford, and what it promises beyond the concept.
  struct promises {
    int instances = 100;         ///< random ones, for the laws that take any
    bool refuses_peers = false;  ///< messages to oneself and to nobody are an argument_error
  };

  /// All laws that the model has ranks for; a section each.
  static void check(promises const& given) {
    SECTION("every rank is there once and knows how many there are") { check_ranks(); }
    SECTION("messages of any size arrive in order, and their memory is free again") {
      check_random_messages(given.instances);
    }
    SECTION("all_gather and all_reduce run on top") { check_dense_collectives(); }
    SECTION("a reduction is the transpose of a gather") { check_adjoint(given.instances); }
    if (fits(2)) check_two(given);
    if (fits(3)) check_three();
    if (fits(4)) check_four();
  }

 private:
  /// What takes two ranks, three, four.
  static void check_two(promises const& given) {
    SECTION("large messages both ways do not wait for each other") {
      check_messages(2, 1, 1 << 22);
    }
    SECTION("ranks that compare labels find out that theirs differ") { check_labels(); }
    if (given.refuses_peers) {
      SECTION("a message to oneself or to nobody is refused by name") { check_refused_peers(); }
    }
    if constexpr (fssdp::forwarding_communicator<communicator>) {
      SECTION("a held message is let go, once") { check_held(); }
    }
  }
  static void check_three() {
    SECTION("many messages go both ways in one exchange") { check_messages(3, 300, 5); }
    SECTION("post is called once, with messages to name or without") { check_post(); }
    SECTION("a rank that does not answer is named") { check_silent_rank(); }
    if constexpr (requires(communicator & comm) { comm.duplicate(); }) {
      SECTION("a duplicate is a communicator of its own") { check_duplicate(); }
    }
    if constexpr (fssdp::splittable_communicator<communicator>) {
      SECTION("a group has the ranks of a color, in the order of their keys") { check_split(); }
    }
  }
  static void check_four() {
    if constexpr (fssdp::lending_communicator<communicator>) {
      SECTION("lent memory is seen in the order of the borrow calls") { check_lending(); }
    }
    if constexpr (fssdp::forwarding_communicator<communicator>) {
      SECTION("messages are passed on as they come in") { check_forwarding(); }
    }
  }

  /// The sum of what work(comm) returns on the ranks: assertions belong after the join. Of
  /// processes each says what differs on its own rank.
  [[nodiscard]] static differences sum_of(world const& among,
                                          std::function<differences(communicator&)> const& work) {
    auto mutex = std::mutex{};
    auto sum = differences{};
    Model::run(among, [&](communicator& comm) {
      auto const found = work(comm);
      auto const lock = std::scoped_lock{mutex};
      sum += found;
    });
    return sum + differences{total(sum.count()) - sum.count()};
  }
  /// What all processes have counted, where there are several.
  [[nodiscard]] static long total(long here) {
    if constexpr (requires { Model::total(here); }) return Model::total(here);
    return here;
  }
  /// Whether the model can have so many ranks.
  [[nodiscard]] static bool fits(int ranks) {
    if constexpr (requires { Model::most_ranks(); }) return ranks <= Model::most_ranks();
    return true;
  }
  [[nodiscard]] static int at_most(int ranks) {
    while (!fits(ranks)) --ranks;
    return ranks;
  }
  [[nodiscard]] static differences exchange(communicator& comm, message_pattern const& of,
                                            int turn) {
    auto messages = rank_messages{of, comm.rank(), turn};
    comm.exchange([&](auto& batch) { messages.name(batch); });
    fssdp::synchronize(comm);
    return messages.wrong();
  }

  static void check_ranks() {
    for (auto const ranks : {1, 2, 5}) {
      if (!fits(ranks)) continue;
      auto seen = std::vector<std::atomic<int>>(static_cast<std::size_t>(ranks));
      auto const wrong = sum_of({.ranks = ranks}, [&](communicator const& comm) {
        ++seen.at(comm.rank().index());
        return comm.size() == ranks ? 0 : 1;
      });
      REQUIRE(wrong == 0);
      for (auto const& times : seen) REQUIRE(total(times) == 1);
    }
  }

  static void check_random_messages(int instances) {
    for (int seed = 1; seed <= instances; ++seed) {
      CAPTURE(seed);
      auto draw = support::dice{static_cast<std::uint64_t>(seed)};
      auto const ranks = draw.between(1, at_most(5));
      auto const turns = std::vector<message_pattern>{
          {ranks, draw}, {ranks, draw}, {ranks, 0, 0}, {ranks, draw}, {ranks, draw}};
      REQUIRE(sum_of({.ranks = ranks}, [&](communicator& comm) {
                auto wrong = differences{};
                for (std::size_t turn = 0; turn < turns.size(); ++turn)
                  wrong += exchange(comm, turns[turn], static_cast<int>(turn));
                return wrong;
              }) == 0);
    }
  }
  static void check_messages(int ranks, std::size_t count, std::size_t bytes) {
    auto const pattern = message_pattern{ranks, count, bytes};
    REQUIRE(sum_of({.ranks = ranks}, [&](communicator& comm) {
              return exchange(comm, pattern, 0) + exchange(comm, pattern, 1);
            }) == 0);
  }

  static void check_post() {
    for (auto const messages : {std::size_t{0}, std::size_t{2}}) {
      auto const pattern = message_pattern{3, messages, 1};
      auto const calls = sum_of({.ranks = 3}, [&](communicator& comm) {
        auto count = 0;
        auto mine = rank_messages{pattern, comm.rank(), 0};
        comm.exchange([&](auto& batch) {
          ++count;
          mine.name(batch);
        });
        fssdp::synchronize(comm);
        return count;
      });
      REQUIRE(calls == 3);
    }
  }

  static void check_dense_collectives() {
    for (auto const ranks : {1, 4}) {
      if (!fits(ranks)) continue;
      auto rows = std::vector<int>{};
      for (int rank = 0; rank < ranks; ++rank) rows.insert(rows.end(), {rank, rank * rank});
      auto const right = sum_of({.ranks = ranks}, [&](communicator& comm) {
        auto const me = comm.rank().value();
        auto all = std::vector<int>(rows.size());
        fssdp::all_gather(comm, std::vector{me, me * me}, all);
        auto const sum = fssdp::all_reduce(comm, std::vector{1, me});
        return all == rows && sum == std::vector{ranks, ranks * (ranks - 1) / 2} ? 1 : 0;
      });
      REQUIRE(right == ranks);
    }
  }

  static void check_adjoint(int instances) {
    for (int seed = 1; seed <= instances; ++seed) {
      CAPTURE(seed);
      auto const of = support::random_instance{static_cast<std::uint64_t>(seed),
                                               {.ranks = at_most(4), .nodes = 2, .experts = 12}};
      auto gathered = std::atomic{0L};  // whole numbers: exact in any order
      auto reduced = std::atomic{0L};
      auto const wrong = sum_of({.ranks = of.plan.ranks()}, [&](communicator& comm) {
        auto mine = support::rank_buffers<float>{of, comm.rank()};
        fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.replicas);
        fssdp::sparse_reduce_scatter(comm, of.plan, mine.partials, mine.gradients);
        fssdp::synchronize(comm);
        gathered += static_cast<long>(mine.gathered_times_partials());
        reduced += static_cast<long>(mine.parameters_times_gradients());
        return mine.wrong_replicas() + mine.wrong_gradients() + mine.wrong_inputs();
      });
      REQUIRE(wrong == 0);
      REQUIRE(total(gathered) == total(reduced));
    }
  }

  /// The rank that errors name: of a group that of the world.
  [[nodiscard]] static fssdp::rank_id in_errors(communicator& comm, int rank) {
    if constexpr (requires { comm.world_rank(fssdp::rank_id{rank}); })
      return comm.world_rank(fssdp::rank_id{rank});
    else
      return fssdp::rank_id{rank};
  }

  static void check_silent_rank() {
    auto const soon = std::chrono::seconds{1};
    auto const named = sum_of({.ranks = 3, .deadline = soon}, [](communicator& comm) {
      if (comm.rank() == fssdp::rank_id{1}) return 0;  // comes, and says nothing
      auto byte = std::byte{};
      try {
        comm.exchange([&](auto& batch) { batch.recv({&byte, 1}, fssdp::rank_id{1}); });
        fssdp::synchronize(comm);
      } catch (fssdp::transport_error const& error) {
        return error.failed_rank() == in_errors(comm, 1) ? 1 : 0;
      }
      return 0;
    });
    REQUIRE(named == 2);
  }

  static void check_labels() {
    auto compared = std::atomic{false};
    auto const pattern = message_pattern{2, 1, 4};
    auto const among = world{.ranks = 2, .deadline = std::chrono::seconds{5}};
    auto const named = sum_of(among, [&](communicator& comm) {
      auto mine = rank_messages{pattern, comm.rank(), 0};
      auto const label = fssdp::batch_label{.plan = 7, .round = comm.rank().value()};
      try {
        comm.exchange([&](auto& batch) {
          if constexpr (requires { batch.label(label); }) compared = true;
          fssdp::set_label(batch, label);
          mine.name(batch);
        });
        fssdp::synchronize(comm);
      } catch (fssdp::transport_error const& error) {
        return error.failed_rank() != in_errors(comm, comm.rank().value()) ? 1 : 0;
      }
      return 0;
    });
    REQUIRE(named == (total(compared ? 1 : 0) != 0 ? 2 : 0));
  }

  static void check_refused_peers() {
    for (auto const peer : {-1, 0, 2}) {
      CAPTURE(peer);
      auto const refused = sum_of({.ranks = 2}, [&](communicator& comm) {
        if (comm.rank() != fssdp::rank_id{0}) return 0;
        try {
          comm.exchange([&](auto& batch) { batch.send({}, fssdp::rank_id{peer}); });
          fssdp::synchronize(comm);
        } catch (fssdp::argument_error const& error) {
          auto const name = "rank " + std::to_string(peer);
          return std::string{error.what()}.find(name) != std::string::npos ? 1 : 10;
        }
        return 0;
      });
      REQUIRE(refused == 1);
    }
  }

  /// Every rank sends two numbers to each; all heads are borrowed first, the highest rank's before
  /// the others', then all tails.
  static void check_lending() {
    constexpr auto ranks = 4;
    auto const right = sum_of({.ranks = ranks}, [](communicator& comm) {
      auto const me = comm.rank().value();
      auto mine = std::vector{me, me + 10};
      auto seen = std::vector<int>{};
      auto expected = std::vector<int>{};
      auto visits = 0;
      comm.lend(
          [&](auto& batch) {
            for (auto const peer : fssdp::first_n<fssdp::rank_id>(ranks))
              for (std::size_t i = 0; i < 2 && peer != comm.rank(); ++i)
                batch.send(std::as_bytes(std::span{mine}.subspan(i, 1)), peer);
            for (auto const tail : {0, 10})
              for (auto peer = ranks - 1; peer >= 0; --peer) {
                if (peer == me) continue;
                batch.borrow(sizeof(int), fssdp::rank_id{peer});
                expected.push_back(peer + tail);
              }
          },
          [&](std::span<std::span<std::byte const> const> lent) {
            ++visits;
            for (auto const bytes : lent)
              seen.push_back(*reinterpret_cast<int const*>(bytes.data()));
          });
      mine.assign(2, -1);  // nobody reads it any more
      return visits == 1 && seen == expected ? 1 : 0;
    });
    REQUIRE(right == ranks);
  }

  /// Two numbers of rank 0 go down a chain, the second before the first; every rank adds one to a
  /// copy of the first and looks at the second in place.
  static void check_forwarding() {
    constexpr auto ranks = 4;
    auto const right = sum_of({.ranks = ranks}, [](communicator& comm) {
      auto const me = comm.rank().value();
      auto const next = fssdp::rank_id{me + 1};
      auto numbers = std::vector{10, 20};
      auto const out = std::as_bytes(std::span{numbers});
      auto seen = 0;
      comm.forward(
          [&](auto& batch) {
            for (auto const at : {sizeof(int), std::size_t{0}})
              if (me == 0)
                batch.send(out.subspan(at, sizeof(int)), next);
              else if (me + 1 < ranks)
                batch.hold(out.subspan(at, sizeof(int)), next);
            if (me == 0) return;
            batch.borrow(sizeof(int), fssdp::rank_id{me - 1});
            batch.recv(std::as_writable_bytes(std::span{numbers}.first(1)), fssdp::rank_id{me - 1});
          },
          [&](std::size_t wanted, std::span<std::byte const> bytes, auto& gate) {
            auto const value = *reinterpret_cast<int const*>(bytes.data());
            seen += value;
            numbers[wanted == 0 ? 1 : 0] = value + 1;
            if (me + 1 < ranks) gate.release(wanted);
          });
      numbers.assign(2, -1);  // nobody reads it any more
      return seen == (me == 0 ? 0 : 30 + 2 * (me - 1)) ? 1 : 0;
    });
    REQUIRE(right == ranks);
  }

  /// Rank 0 lets its held message go so many times.
  static void check_held() {
    for (auto const times : {0, 1, 2}) {
      CAPTURE(times);
      auto const refused = sum_of({.ranks = 2}, [&](communicator& comm) {
        auto const zero = fssdp::rank_id{0};
        auto const peer = fssdp::rank_id{1 - comm.rank().value()};
        auto byte = std::byte{};
        try {
          comm.forward(
              [&](auto& batch) {
                if (comm.rank() == zero) batch.hold({&byte, 1}, peer);
                if (comm.rank() != zero) batch.send({}, peer);
                if (comm.rank() == zero) batch.recv({}, peer);
                if (comm.rank() != zero) batch.recv({&byte, 1}, peer);
              },
              [&](std::size_t, std::span<std::byte const>, auto& gate) {
                for (auto i = 0; i < times && comm.rank() == zero; ++i) gate.release(0);
              });
        } catch (fssdp::argument_error const&) {
          return comm.rank() == zero ? 10 : 1000;
        } catch (fssdp::transport_error const& error) {
          return comm.rank() != zero && error.failed_rank() == in_errors(comm, 0) ? 1 : 1000;
        }
        return 0;
      });
      REQUIRE((times == 1 ? refused == 0 : refused == 10 || refused == 11));
    }
  }

  static void check_duplicate() {
    auto const pattern = message_pattern{3, 2, 9};
    auto const wrong = sum_of({.ranks = 3}, [&](communicator& comm) {
      auto streamed = comm.duplicate();
      auto count =
          differences{streamed.rank() == comm.rank() && streamed.size() == comm.size() ? 0 : 1};
      for (auto const turn : {0, 2, 4})
        count += exchange(comm, pattern, turn) + exchange(streamed, pattern, turn + 1);
      if constexpr (requires { streamed.close(); }) streamed.close();
      return count;
    });
    REQUIRE(wrong == 0);
  }

  /// Ranks 2 and 0, in this order, and none of the others; then both, the other way round.
  static void check_split() {
    auto const pair = message_pattern{2, 2, 9};
    auto const all = message_pattern{3, 2, 9};
    auto const wrong = sum_of({.ranks = 3}, [&](communicator& comm) {
      auto const me = comm.rank().value();
      auto group = comm.split(me == 1 ? fssdp::no_color : 7, -me);
      auto count = differences{group.has_value() == (me != 1) ? 0 : 1};
      for (auto const turn : {0, 2, 4}) {
        if (group.has_value()) count += exchange(*group, pair, turn);
        count += exchange(comm, all, turn + 1);
      }
      if (!group.has_value()) return count;
      count +=
          differences{group->size() == 2 && group->rank().value() == (me == 2 ? 0 : 1) ? 0 : 1};
      auto again = group->split(0, me);
      return count + differences{again->rank().value() == me / 2 ? 0 : 1} +
             exchange(*again, pair, 5);
    });
    REQUIRE(wrong == 0);
  }
};

}  // namespace contract
