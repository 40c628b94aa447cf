// SPDX-License-Identifier: Apache-2.0
/// Communicators between processes: large messages in parts, duplicates driven by several threads,
/// batches that repeat, communicators that are borrowed, the nodes that ranks are on.
#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "contract/message_pattern.hpp"
#include "fssdp/comm/mpi.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "mpi/processes.hpp"
#include "support/allocation_counter.hpp"

using fssdp::mpi_communicator;
using fssdp::node_id;
using fssdp::rank_id;
using mpi_tests::processes;
using mpi_tests::sum_over;

namespace {

template <class Comm>
[[nodiscard]] support::differences exchange(Comm& comm, contract::message_pattern const& of,
                                            int turn) {
  auto messages = contract::rank_messages{of, comm.rank(), turn};
  comm.exchange([&](auto& batch) { messages.name(batch); });
  fssdp::synchronize(comm);
  return messages.wrong();
}

/// A ring: everybody sends to the next what it has, and gets what the one before it has.
class ring {
 public:
  ring(rank_id me, int size, std::size_t elements)
      : next_{(me.value() + 1) % size},
        previous_{(me.value() + size - 1) % size},
        out_(elements),
        in_(elements) {}

  /// How many elements have not come as they should.
  template <class Comm>
  [[nodiscard]] int turn(Comm& comm, int number) {
    std::iota(out_.begin(), out_.end(), comm.rank().value() + number);
    std::ranges::fill(in_, -1);
    comm.forward(
        [&](auto& batch) {
          batch.hold(std::as_bytes(std::span{out_}), next_);
          batch.send(std::as_bytes(std::span{out_}.first(1)), next_);
          batch.recv(std::as_writable_bytes(std::span{in_}), previous_);
          batch.borrow(sizeof(int), previous_);
        },
        [&](std::size_t wanted, std::span<std::byte const> bytes, auto& gate) {
          if (wanted == 0) return;
          wrong_ += *reinterpret_cast<int const*>(bytes.data()) != previous_.value() + number;
          gate.release(0);
        });
    auto expected = previous_.value() + number;
    for (auto const value : in_) wrong_ += value == expected++ ? 0 : 1;
    return std::exchange(wrong_, 0);
  }

 private:
  rank_id next_;
  rank_id previous_;
  std::vector<int> out_;
  std::vector<int> in_;
  int wrong_ = 0;
};

void ignore_error(MPI_Comm*, int*, ...) {}

}  // namespace

TEST_CASE("messages larger than MPI can send are sent in parts") {
  auto const most = GENERATE(std::size_t{1}, std::size_t{7}, std::size_t{1000});
  auto draw = support::dice{most};
  auto const ranks = processes().size();
  for (int turn = 0; turn < 5; ++turn) {
    auto const pattern = most < 100 ? contract::message_pattern{ranks, 3, 20}
                                    : contract::message_pattern{ranks, draw};
    REQUIRE(sum_over(ranks, {.most_message_bytes = most},
                     [&](mpi_communicator& comm) { return exchange(comm, pattern, turn); }) == 0);
  }
}

TEST_CASE("two communicators are driven by two threads") {
  auto const ranks = processes().size();
  auto const pattern = contract::message_pattern{ranks, 3, 1000};
  REQUIRE(sum_over(ranks, {}, [&](mpi_communicator& comm) {
            auto other = comm.duplicate();
            auto wrong = support::differences{};
            auto wrong_there = wrong;
            auto thread = std::jthread{[&] {
              for (int turn = 0; turn < 40; ++turn) wrong_there += exchange(other, pattern, turn);
            }};
            for (int turn = 0; turn < 60; ++turn) wrong += exchange(comm, pattern, turn + 1);
            thread.join();
            return wrong + wrong_there;
          }) == 0);
}

TEST_CASE("batches that repeat find their own messages, and nothing is allocated for them",
          "[at_least_2]") {
  if (auto const lacks = support::lacks_allocation_counts(); !lacks.empty())
    return skip_test(lacks);
  if (mpi_tests::lacks_processes(2)) return;
  auto const ranks = processes().size();
  auto const allocated = sum_over(ranks, {}, [&](mpi_communicator& comm) {
    auto small = ring{comm.rank(), ranks, 3};
    auto large = ring{comm.rank(), ranks, 100'000};
    auto wrong = 0;
    auto const turns = [&](int first) {
      for (int turn = first; turn < first + 5; ++turn)
        wrong += small.turn(comm, turn) + large.turn(comm, turn);
    };
    turns(0);
    auto const allocations = support::allocations_in([&] { turns(5); });
    return wrong * 1000 + static_cast<int>(allocations);
  });
  REQUIRE(allocated == 0);
}

TEST_CASE("more different batches occur than are cached", "[at_least_2]") {
  if (mpi_tests::lacks_processes(2)) return;
  auto const ranks = std::min(processes().size(), 2);
  REQUIRE(sum_over(ranks, {}, [&](mpi_communicator& comm) {
            auto wrong = 0;
            auto rings = std::vector<ring>(100, ring{comm.rank(), ranks, 1});
            for (int turn = 0; turn < 4; ++turn)
              for (auto& each : rings) wrong += each.turn(comm, turn);
            for (int turn = 0; turn < 400; ++turn) wrong += rings.back().turn(comm, turn);
            for (auto& each : rings) wrong += each.turn(comm, 1) + each.turn(comm, 2);
            return wrong;
          }) == 0);
}

TEST_CASE("a borrowed communicator is given back to the user, with its error handler") {
  auto const comm = processes().first(processes().size());
  auto before = MPI_Errhandler{};
  MPI_Comm_create_errhandler(ignore_error, &before);
  MPI_Comm_set_errhandler(comm, before);
  {
    auto streamed = fssdp::mpi_ref{comm};
    auto const pattern = contract::message_pattern{streamed.size(), 2, 9};
    auto wrong = exchange(streamed, pattern, 0);
    auto other = streamed.duplicate();
    wrong += exchange(other, pattern, 1);
    REQUIRE(mpi_tests::total(wrong) == 0);
    REQUIRE(streamed.handle() == comm);
    REQUIRE(other.handle() != comm);
  }
  auto after = MPI_Errhandler{};
  MPI_Comm_get_errhandler(comm, &after);
  auto const same = before == after;
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
  MPI_Errhandler_free(&before);
  MPI_Errhandler_free(&after);
  REQUIRE(same);
}

TEST_CASE("ranks of one host are on one node") {
  auto const size = processes().size();
  auto name = std::array<char, MPI_MAX_PROCESSOR_NAME>{};
  auto length = 0;
  MPI_Get_processor_name(name.data(), &length);
  auto names = std::vector<char>(name.size() * static_cast<std::size_t>(size));
  MPI_Allgather(name.data(), MPI_MAX_PROCESSOR_NAME, MPI_CHAR, names.data(), MPI_MAX_PROCESSOR_NAME,
                MPI_CHAR, MPI_COMM_WORLD);
  auto hosts = std::vector<std::string>{};  // in the order of their lowest ranks
  auto expected = std::vector<node_id>{};
  for (auto const rank : fssdp::first_n<rank_id>(size)) {
    auto const host = std::string{names.data() + rank.index() * name.size()};
    auto const known = std::ranges::find(hosts, host) - hosts.begin();
    if (known == std::ssize(hosts)) hosts.push_back(host);
    expected.emplace_back(known);
  }
  auto const topo = fssdp::mpi_topology(
      MPI_COMM_WORLD, {.network = fssdp::network_interface::per_node, .cost = {.port_seconds = 7}});
  REQUIRE(topo ==
          fssdp::topology{expected, {{}}, fssdp::network_interface::per_node, {.port_seconds = 7}});
}

TEST_CASE("nodes are numbered by their lowest ranks") {
  auto const nodes = fssdp::detail::nodes_by_lowest_rank({0, 1, 0, 5, 1, 5});
  auto const expected =
      std::vector{node_id{0}, node_id{1}, node_id{0}, node_id{2}, node_id{1}, node_id{2}};
  REQUIRE(nodes == expected);
}
