// SPDX-License-Identifier: Apache-2.0
/// Ranks go on without others that are lost.
#include <chrono>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "gpu/compare_with_threads.hpp"
#include "nccl/captured.hpp"
#include "nccl/everywhere_plan.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::nccl_communicator;
using fssdp::rank_id;
using lost_ranks = std::vector<rank_id>;

namespace {

constexpr auto of_four =
    nccl_tests::world{.ranks = 4, .deadline = std::chrono::milliseconds{1500}, .may_shrink = true};

/// @throws std::runtime_error unless gathers and reductions leave the bits of as many threads
void compare(nccl_communicator& comm) {
  gpu_tests::compare_with_threads(comm, 6, "NCCL", [](fssdp::transfer_plan const&) {});
}

/// @throws std::runtime_error unless it is this rank of so many
void expect(nccl_communicator const& comm, int rank, int size) {
  if (comm.rank() != rank_id{rank} || comm.size() != size)
    throw std::runtime_error{"rank " + std::to_string(comm.rank().value()) + " of " +
                             std::to_string(comm.size()) + "; expected " + std::to_string(rank) +
                             " of " + std::to_string(size)};
}

/// Waits for a byte from the last rank, which sends none.
/// @param memory of a byte: freeing it before the ranks go on would wait forever
/// @throws std::runtime_error if that is not noticed
void lose_last(nccl_communicator& comm, fssdp::cuda_memory const& memory) {
  auto const last = rank_id{comm.size() - 1};
  auto noticed = std::optional<rank_id>{};
  try {
    comm.exchange([&](auto& batch) { batch.recv(memory.bytes(), last); });
    comm.synchronize();
  } catch (fssdp::transport_error const& error) {
    noticed = error.failed_rank();
  }
  if (noticed != last || !comm.has_failed() || comm.handle() == nullptr)
    throw std::runtime_error{"a lost rank is noticed in another way"};
}

/// What rank 0 says of without(lost), where nobody else calls it.
[[nodiscard]] std::string refusal_of(nccl_tests::world const& among, lost_ranks const& lost) {
  auto const thrown = nccl_tests::thrown_by(among, [&](nccl_communicator& comm) {
    if (comm.rank() != rank_id{0}) return;
    try {
      (void)comm.without(lost);
    } catch (fssdp::argument_error const&) {
      if (comm.has_failed()) throw std::runtime_error{"bad input is a failure"};
      throw;
    }
  });
  return support::is<fssdp::argument_error>(thrown[0]) ? support::text(thrown[0]) : "no refusal";
}

}  // namespace

TEST_CASE(
    "a communicator without some ranks is between the others, and leaves the bits of threads") {
  gpu_double::reset({.only_device_memory = true});
  auto const before = gpu_double::live_communicators();
  auto const thrown = nccl_tests::thrown_by({.ranks = 5}, [](nccl_communicator& comm) {
    auto const me = comm.rank().value();
    if (me != 1) {
      auto left = comm.without(lost_ranks{rank_id{1}});  // 0, 2, 3 and 4
      expect(left, me == 0 ? 0 : me - 1, 4);
      compare(left);
      if (me == 2 || me == 3) {
        auto again = left.without(lost_ranks{rank_id{3}, rank_id{0}});
        expect(again, me - 2, 2);
        compare(again);
        auto streamed = again.duplicate();
        again.close();
        compare(streamed);
        streamed.close();
      }
      left.close();
    }
    compare(comm);  // all of them
  });
  for (auto const& of_rank : thrown) {
    CAPTURE(support::text(of_rank));
    REQUIRE(of_rank == nullptr);
  }
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
  REQUIRE(gpu_double::live_communicators() == before);
}

TEST_CASE("ranks that have noticed a lost one go on without it, and without the next") {
  gpu_double::reset({.only_device_memory = true});
  auto const thrown = nccl_tests::thrown_by(of_four, [](nccl_communicator& comm) {
    auto const me = comm.rank().value();
    if (me == 3) return;
    auto const memory = fssdp::cuda_memory{1, comm.rank()};
    lose_last(comm, memory);
    auto left = comm.without(lost_ranks{rank_id{3}});
    expect(left, me, 3);
    compare(left);
    left.synchronize();
    if (me == 2) return;
    lose_last(left, memory);
    auto pair = left.without(lost_ranks{rank_id{2}});
    expect(pair, me, 2);
    compare(pair);
    pair.close();
  });
  for (auto const& of_rank : thrown) {
    CAPTURE(support::text(of_rank));
    REQUIRE(of_rank == nullptr);
  }
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

TEST_CASE("a rank that has not noticed the lost one goes on with those that have") {
  gpu_double::reset();
  auto noticed = std::promise<void>{};  // rank 0 hears of it from rank 1
  auto const heard = noticed.get_future().share();
  auto const thrown = nccl_tests::thrown_by(of_four, [&](nccl_communicator& comm) {
    auto const me = comm.rank().value();
    auto const memory = fssdp::cuda_memory{1, comm.rank()};
    if (me == 3) return;
    if (me == 1 || me == 2) lose_last(comm, memory);
    if (me == 1) noticed.set_value();
    if (me == 0) heard.wait();
    auto left = comm.without(lost_ranks{rank_id{3}});
    compare(left);
    left.close();
  });
  for (auto const& of_rank : thrown) {
    CAPTURE(support::text(of_rank));
    REQUIRE(of_rank == nullptr);
  }
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

TEST_CASE("work in progress is abandoned when ranks are left out, also if graphs are alive") {
  gpu_double::reset();
  auto const before = gpu_double::live_communicators();
  auto const thrown = nccl_tests::thrown_by(of_four, [](nccl_communicator& comm) {
    auto const of = nccl_tests::everywhere_plan{4};
    auto mine = nccl_tests::everywhere_buffers{of, comm};
    mine.gather_and_reduce(comm, of.plan);
    comm.synchronize();
    auto const graph = nccl_tests::captured(
        comm, [&] { fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.all); });
    if (comm.rank() == rank_id{3}) return;
    cudaGraphLaunch(graph.get(), comm.stream());  // which waits for rank 3, and nobody has noticed
    auto left = comm.without(lost_ranks{rank_id{3}});
    if (!comm.has_failed() || cudaStreamQuery(comm.stream()) != cudaSuccess)
      throw std::runtime_error{"something is under way"};
    compare(left);
    left.close();
  });
  for (auto const& of_rank : thrown) {
    CAPTURE(support::text(of_rank));
    REQUIRE(of_rank == nullptr);
  }
  auto const until = std::chrono::steady_clock::now() + std::chrono::seconds{30};
  while (gpu_double::live_communicators() != before && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  REQUIRE(gpu_double::live_communicators() == before);
}

TEST_CASE("a remaining rank that does not come is awaited no longer than the deadline") {
  gpu_double::reset();
  auto const before = gpu_double::live_communicators();
  auto const thrown = nccl_tests::thrown_by(of_four, [](nccl_communicator& comm) {
    if (comm.rank().value() >= 2) return;
    try {
      auto const left = comm.without(lost_ranks{rank_id{3}});
    } catch (fssdp::deadline_exceeded const&) {
      if (!comm.has_failed() || comm.handle() != nullptr)
        throw std::runtime_error{"it has not been aborted"};
      throw;
    }
  });
  for (auto const me : {0, 1}) {
    auto const& of_rank = thrown[static_cast<std::size_t>(me)];
    REQUIRE(support::is<fssdp::deadline_exceeded>(of_rank));
    REQUIRE_THAT(support::text(of_rank),
                 mentions("rank " + std::to_string(me) + " waits for all ranks in ncclCommShrink"));
  }
  REQUIRE(gpu_double::live_communicators() == before);
}

TEST_CASE("ranks that cannot be left out are refused by name") {
  gpu_double::reset();
  auto const of_three = nccl_tests::world{.ranks = 3};
  auto const refusal = [&](std::vector<int> const& lost) {
    return refusal_of(of_three, {lost.begin(), lost.end()});
  };
  REQUIRE(refusal({}) == "without: no ranks; expected those that are lost");
  REQUIRE(refusal({1, 3}) == "without: rank 3 of 3 ranks; expected one from 0 to 2");
  REQUIRE(refusal({-1}) == "without: rank -1 of 3 ranks; expected one from 0 to 2");
  REQUIRE(refusal({2, 2}) == "without: rank 2 twice; expected each rank once");
  REQUIRE(
      refusal({1, 0}) ==
      "without: rank 0 is among the ranks that it leaves out; expected that only those that are "
      "left call");
  REQUIRE(refusal({2, 1, 0}) ==
          "without: all of 3 ranks, so that none is left; expected at most 2");
}

TEST_CASE("a communicator that was closed, or aborted when it failed, does not shrink") {
  gpu_double::reset();
  for (auto const closes : {true, false}) {
    CAPTURE(closes);
    auto among = of_four;
    among.may_shrink = false;
    auto const thrown = nccl_tests::thrown_by(among, [&](nccl_communicator& comm) {
      auto const memory = fssdp::cuda_memory{1, comm.rank()};
      if (closes) comm.close();
      if (!closes) {
        try {
          auto const peer = rank_id{(comm.rank().value() + 1) % comm.size()};
          comm.exchange([&](auto& batch) { batch.recv(memory.bytes(), peer); });
          comm.synchronize();
        } catch (fssdp::transport_error const&) {
        }
      }
      (void)comm.without(lost_ranks{rank_id{comm.rank() == rank_id{0} ? 1 : 0}});
    });
    for (auto const& of_rank : thrown) {
      REQUIRE(support::is<fssdp::poisoned_stream>(of_rank));
      REQUIRE_THAT(support::text(of_rank),
                   mentions(closes ? "without: this communicator has been closed"
                                   : "expected nccl_options::may_shrink"));
    }
  }
}
