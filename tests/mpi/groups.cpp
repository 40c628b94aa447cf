// SPDX-License-Identifier: Apache-2.0
/// Groups of processes: split by color, driven by several threads, sharing one failure.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_gather.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/comm/mpi.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "mpi/processes.hpp"

using fssdp::mpi_communicator;
using fssdp::rank_id;
using mpi_tests::endings;
using mpi_tests::processes;
using mpi_tests::sum_over;

namespace {

using namespace std::chrono_literals;

/// The ranks of the world in a communicator, as its ranks tell each other.
template <class Comm>
[[nodiscard]] std::vector<int> members(Comm& comm, int rank_in_world) {
  auto all = std::vector<int>(static_cast<std::size_t>(comm.size()));
  fssdp::all_gather(comm, std::span{&rank_in_world, 1}, all);
  return all;
}
/// The ranks from `first` on, by steps.
[[nodiscard]] std::vector<int> every(int step, int first, int end) {
  auto ranks = std::vector<int>{};
  for (auto rank = first; rank < end; rank += step) ranks.push_back(rank);
  return ranks;
}

}  // namespace

TEST_CASE("processes are split by color, and a rank may be in no group") {
  auto const ranks = processes().size();
  REQUIRE(sum_over(ranks, {}, [&](mpi_communicator& comm) {
            auto const me = comm.rank().value();
            auto wrong = 0;
            for (auto turn = 0; turn < 3; ++turn) {
              auto group = comm.split(me == 0 ? fssdp::no_color : 5 + me % 2, me);
              wrong += group.has_value() == (me != 0) ? 0 : 1;
              if (!group.has_value()) continue;
              wrong += members(*group, me) == every(2, me % 2 == 0 ? 2 : 1, ranks) ? 0 : 1;
              wrong += group->world_rank(group->rank()) == comm.rank() ? 0 : 1;
            }
            wrong += members(comm, me) == every(1, 0, ranks) ? 0 : 1;
            return wrong;
          }) == 0);
}

TEST_CASE("groups of processes overlap, each driven by a stream, and lend as the world does") {
  constexpr auto turns = 30;
  auto const ranks = processes().size();
  REQUIRE(sum_over(ranks, {}, [&](mpi_communicator& comm) {
            auto const me = comm.rank().value();
            auto row = comm.split(me / 2);
            auto column = comm.split(me % 2);
            auto streams = std::vector<fssdp::host_stream>(2);
            auto bound_row = fssdp::on_stream(*row, streams[0]);
            auto bound_column = fssdp::on_stream(*column, streams[1]);
            auto in_row = std::vector<std::vector<int>>(turns);
            auto in_column = in_row;
            for (std::size_t turn = 0; turn < turns; ++turn) {
              auto const ask_row = [&] {
                bound_row.submit([&, turn](auto& group) { in_row[turn] = members(group, me); });
              };
              if (me % 3 != 0) ask_row();
              bound_column.submit([&, turn](auto& group) { in_column[turn] = members(group, me); });
              if (me % 3 == 0) ask_row();
            }
            auto wrong = fssdp::all_reduce(comm, std::vector{1}) == std::vector{ranks} ? 0 : 1;
            bound_row.synchronize();
            bound_column.synchronize();
            auto const first = me / 2 * 2;
            auto const here = every(1, first, std::min(first + 2, ranks));
            for (std::size_t turn = 0; turn < turns; ++turn)
              wrong += (in_row[turn] == here ? 0 : 1) +
                       (in_column[turn] == every(2, me % 2, ranks) ? 0 : 1);
            return wrong;
          }) == 0);
}

TEST_CASE("when a process throws in one group, those of all groups fail", "[at_least_3]") {
  if (mpi_tests::lacks_processes(3)) return;
  auto const ranks = processes().size();
  auto const all = endings(ranks, {.deadline = 60s}, [&](mpi_communicator& comm) {
    auto const me = comm.rank().value();
    auto group = comm.split(me % 2);
    if (me == 1) group->exchange([](auto&) { throw std::runtime_error{"out of memory, say"}; });
    auto byte = std::byte{};
    auto const peer = rank_id{group->rank() == rank_id{0} ? 1 : 0};
    auto& waits = group->size() > 1 ? static_cast<fssdp::mpi_ref&>(*group) : comm;
    auto const from = group->size() > 1 ? peer : rank_id{0};
    waits.exchange([&](auto& batch) { batch.recv({&byte, 1}, from); });
  });
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    CAPTURE(rank, all[rank].what());
    REQUIRE(all[rank].is(rank == 1 ? "exception" : "peer_failed"));
    REQUIRE_THAT(all[rank].what(), mentions("out of memory, say"));
    REQUIRE(all[rank].failed_rank == (rank == 1 ? -1 : 1));
    REQUIRE(all[rank].seconds < 20);
  }
}

TEST_CASE("a process that does not answer in a group is named as in the world",
          "[at_least_3][deadline]") {
  if (mpi_tests::lacks_processes(3)) return;
  auto const all = endings(3, {.deadline = 1s}, [&](mpi_communicator& comm) {
    auto group = comm.split(comm.rank().value() == 0 ? fssdp::no_color : 0);
    auto byte = std::byte{};
    if (comm.rank() == rank_id{1})
      group->exchange([&](auto& batch) { batch.recv({&byte, 1}, rank_id{1}); });
    if (comm.rank() == rank_id{2}) std::this_thread::sleep_for(3s);
  });
  CAPTURE(all[1].what());
  REQUIRE(all[1].is("deadline_exceeded"));
  REQUIRE(all[1].failed_rank == 2);
  REQUIRE_THAT(all[1].what(), mentions("awaits rank 2 (1 of its group)"));
}

TEST_CASE("a process that does not come to a split ends the wait of the others",
          "[at_least_2][deadline]") {
  if (mpi_tests::lacks_processes(2)) return;
  auto const ranks = processes().size();
  auto const all = endings(ranks, {.deadline = 1s}, [&](mpi_communicator& comm) {
    if (comm.rank() == rank_id{1}) std::this_thread::sleep_for(2s);
    if (comm.rank() != rank_id{1}) (void)comm.split(0);
  });
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    CAPTURE(rank, all[rank].what());
    REQUIRE((rank == 1 || all[rank].is("deadline_exceeded") || all[rank].is("peer_failed")));
    if (rank == 0) REQUIRE_THAT(all[rank].what(), mentions("MPI_Comm_split"));
  }
}
