// SPDX-License-Identifier: Apache-2.0
/// Faults: every rank ends with an error within the deadline, and the process goes on.
#include <atomic>
#include <barrier>
#include <chrono>
#include <optional>
#include <sstream>
#include <thread>

#include "catch.hpp"
#include "fssdp/collective/warm_up.hpp"
#include "nccl/captured.hpp"
#include "nccl/everywhere_plan.hpp"
#include "support/on_all_ranks.hpp"
#include "support/work_after_failure.hpp"

using fssdp::nccl_communicator;
using fssdp::rank_id;
using nccl_tests::everywhere_buffers;
using nccl_tests::everywhere_plan;
using std::chrono::milliseconds;

namespace {

constexpr auto soon = nccl_tests::world{.ranks = 3, .deadline = milliseconds{300}};
/// All waits of a rank together: nothing waits for more than one deadline, then for little.
constexpr auto in_time = milliseconds{1500};

/// Work on every rank, after a warm-up; how each rank ended, and how long all of it took.
struct outcome {
  std::vector<std::exception_ptr> of_rank;
  milliseconds took;
};
template <class Work>
[[nodiscard]] outcome outcome_of(everywhere_plan const& of, Work work) {
  auto start = std::chrono::steady_clock::time_point{};
  auto all_are_warm =
      std::barrier{soon.ranks, [&]() noexcept { start = std::chrono::steady_clock::now(); }};
  auto thrown = nccl_tests::thrown_by(soon, [&](nccl_communicator& comm) {
    try {
      fssdp::warm_up(comm, of.plan);
    } catch (...) {  // nobody waits for it
      all_are_warm.arrive_and_drop();
      throw;
    }
    all_are_warm.arrive_and_wait();
    work(comm);
  });
  auto const end = std::chrono::steady_clock::now();
  return {std::move(thrown), std::chrono::duration_cast<milliseconds>(end - start)};
}

void gather_and_wait(nccl_communicator& comm, everywhere_plan const& of) {
  auto mine = everywhere_buffers{of, comm};
  mine.gather_and_reduce(comm, of.plan);
  comm.synchronize();
}
/// Whether NCCL frees all communicators soon.
[[nodiscard]] bool all_communicators_go() {
  auto const until = std::chrono::steady_clock::now() + std::chrono::seconds{30};
  while (gpu_double::live_communicators() != 0) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(milliseconds{1});
  }
  return true;
}
[[nodiscard]] std::string hash_of(everywhere_plan const& of) {
  auto text = std::ostringstream{};
  text << "plan " << std::hex << of.plan.hash_value();
  return text.str();
}

}  // namespace

TEST_CASE("an error of NCCL's on one rank ends all of them, and new ones can be made") {
  gpu_double::reset();
  auto const of = everywhere_plan{soon.ranks};
  auto const ended = outcome_of(of, [&](nccl_communicator& comm) {
    if (comm.rank() == rank_id{1}) gpu_double::inject_error(1, ncclRemoteError);
    gather_and_wait(comm, of);
  });
  for (auto const& thrown : ended.of_rank) REQUIRE(support::is<fssdp::transport_error>(thrown));
  REQUIRE_THAT(support::text(ended.of_rank[1]), mentions("NCCL reports remote process exited"));
  REQUIRE_THAT(support::text(ended.of_rank[1]), mentions(hash_of(of)));
  REQUIRE(ended.took < in_time);

  gpu_double::reset();
  REQUIRE(nccl_tests::failures(soon).empty());
}

TEST_CASE("live graphs do not keep a rank from ending, and can be destroyed later") {
  gpu_double::reset();
  auto const of = everywhere_plan{soon.ranks};
  auto graphs = std::vector<nccl_tests::cuda_graph>(soon.ranks);
  auto const ended = outcome_of(of, [&](nccl_communicator& comm) {
    auto mine = everywhere_buffers{of, comm};
    auto& graph = graphs[comm.rank().index()];
    graph = nccl_tests::captured(
        comm, [&] { fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.all); });
    if (comm.rank() == rank_id{1}) gpu_double::inject_error(1, ncclRemoteError);
    cudaGraphLaunch(graph.get(), comm.stream());
    comm.synchronize();
  });
  for (auto const& thrown : ended.of_rank) REQUIRE(support::is<fssdp::transport_error>(thrown));
  REQUIRE(ended.took < in_time);
  REQUIRE(gpu_double::live_communicators() == soon.ranks);

  gpu_double::reset();
  REQUIRE(nccl_tests::failures(soon).empty());
  graphs.clear();
  REQUIRE(all_communicators_go());
}

TEST_CASE("communicators of the caller's that may be aborted are freed when their graphs are") {
  gpu_double::reset();
  auto const of = everywhere_plan{2};
  auto id = ncclUniqueId{};
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  auto failed = std::atomic{0};
  auto const run = [&](int rank) {
    cudaSetDevice(rank);
    auto const stream = fssdp::make_cuda_stream();
    auto handle = ncclComm_t{};
    (void)ncclCommInitRankConfig(&handle, 2, id, rank, nullptr);  // one that blocks
    auto comm =
        fssdp::nccl_ref{handle, stream.get(), {.deadline = soon.deadline, .may_abort = true}};
    auto mine = everywhere_buffers{of, comm};
    fssdp::warm_up(comm, of.plan);
    auto const graph = nccl_tests::captured(
        comm, [&] { fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.all); });
    if (rank == 1) gpu_double::inject_error(1, ncclRemoteError);
    cudaGraphLaunch(graph.get(), comm.stream());
    try {
      comm.synchronize();
    } catch (fssdp::transport_error const&) {
      ++failed;
    }
  };
  auto other = std::thread{run, 1};
  run(0);
  other.join();
  REQUIRE(failed == 2);
  REQUIRE(all_communicators_go());
}

TEST_CASE("a communicator of the caller's that fails is left to the caller") {
  gpu_double::reset();
  auto const of = everywhere_plan{2};
  auto id = ncclUniqueId{};
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  auto as_expected = std::atomic{0};
  auto const run = [&](int rank) {
    cudaSetDevice(rank);
    auto const stream = fssdp::make_cuda_stream();
    auto handle = ncclComm_t{};
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    (void)ncclCommInitRankConfig(&handle, 2, id, rank, &config);
    auto state = ncclInProgress;
    while (ncclCommGetAsyncError(handle, &state) == ncclSuccess && state == ncclInProgress)
      std::this_thread::yield();
    auto mine = std::optional<everywhere_buffers>{};
    try {  // the nccl_ref goes while a kernel waits for the other rank
      auto comm = fssdp::nccl_ref{
          handle, stream.get(), {.deadline = soon.deadline, .kernels = gpu_double::kernels()}};
      mine.emplace(of, comm);
      fssdp::warm_up(comm, of.plan);
      if (rank == 1) return ncclCommAbort(handle);  // says nothing, and goes
      try {
        mine->gather_and_reduce(comm, of.plan);
        comm.synchronize();
      } catch (fssdp::transport_error const&) {
        if (comm.has_failed() && comm.handle() == handle) ++as_expected;
        throw;
      }
    } catch (fssdp::transport_error const&) {
      if (cudaStreamQuery(stream.get()) == cudaErrorNotReady) ++as_expected;
    }
    if (gpu_double::live_communicators() >= 1) ++as_expected;  // this one
    (void)ncclCommAbort(handle);
    return cudaStreamSynchronize(stream.get()) == cudaSuccess ? ncclSuccess : ncclSystemError;
  };
  auto other = std::thread{[&] { (void)run(1); }};
  auto const ended = run(0);
  other.join();
  REQUIRE(ended == ncclSuccess);
  REQUIRE(as_expected == 3);
  REQUIRE(all_communicators_go());
  REQUIRE(gpu_double::free_what_is_left() == 2);  // the rows of rank 0: a kernel waited then
}

TEST_CASE("a rank that stalls is awaited until the deadline, which says for what") {
  gpu_double::reset();
  auto const of = everywhere_plan{soon.ranks};
  auto const ended = outcome_of(of, [&](nccl_communicator& comm) {
    if (comm.rank() == rank_id{1}) std::this_thread::sleep_for(2 * soon.deadline);
    gather_and_wait(comm, of);
  });
  for (auto const& thrown : ended.of_rank) {
    REQUIRE(support::is<fssdp::deadline_exceeded>(thrown));
    for (auto const* const part : {"within 300 ms", "awaits rank", "exchange", "round 0 of plan"})
      REQUIRE_THAT(support::text(thrown), mentions(part));
    REQUIRE_THAT(support::text(thrown), mentions(hash_of(of)));
  }
  REQUIRE(ended.took < 2 * soon.deadline + in_time);
  REQUIRE(nccl_tests::failures(soon).empty());
}

TEST_CASE("the error names the first exchange that has not run, however many follow it") {
  gpu_double::reset();
  auto const thrown =
      nccl_tests::thrown_by({.ranks = 2, .deadline = soon.deadline}, [](nccl_communicator& comm) {
        auto bytes = std::vector<std::byte>(2);
        auto const peer = rank_id{1 - comm.rank().value()};
        for (auto i = 0; i < (comm.rank() == rank_id{0} ? 50 : 5); ++i)
          comm.exchange([&](auto& batch) {
            batch.send(std::span{bytes}.first(1), peer);
            batch.recv(std::span{bytes}.last(1), peer);
          });
        comm.synchronize();
      });
  REQUIRE_THAT(support::text(thrown[0]), mentions("awaits rank 1 in exchange 6,"));
  REQUIRE(support::failed_rank(thrown[0]) == 1);
  REQUIRE(thrown[1] == nullptr);
}

TEST_CASE("over NCCL ranks with different plans get an error before anything is sent") {
  gpu_double::reset();
  auto const thrown = nccl_tests::thrown_by(soon, [](nccl_communicator& comm) {
    auto of = everywhere_plan{soon.ranks};
    if (comm.rank() == rank_id{1}) of.plan = make_plan(of.layout, fssdp::placement{of.layout});
    fssdp::warm_up(comm, of.plan);
  });
  for (auto const& of_rank : thrown) REQUIRE(support::is<fssdp::ranks_disagree>(of_rank));
  REQUIRE(support::failed_rank(thrown[0]) == 1);
  REQUIRE(support::failed_rank(thrown[1]) == 0);
  REQUIRE(support::failed_rank(thrown[2]) == 1);
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

TEST_CASE("a communicator that has failed says so again and again") {
  gpu_double::reset();
  auto const of = everywhere_plan{soon.ranks};
  auto const ended = outcome_of(of, [&](nccl_communicator& comm) {
    if (comm.rank() == rank_id{1}) return;
    auto first = std::string{};
    try {
      gather_and_wait(comm, of);
    } catch (fssdp::deadline_exceeded const& error) {
      first = error.what();
    }
    if (!comm.has_failed() || comm.handle() != nullptr) throw std::runtime_error{"not failed"};
    try {
      comm.exchange([](auto&) {});
      throw std::runtime_error{"not poisoned"};
    } catch (fssdp::poisoned_stream const& error) {
      if (std::string{error.what()}.find(first) == std::string::npos) throw;
    }
    comm.close();        // nothing to wait for
    comm.synchronize();  // throws the first error
  });
  REQUIRE(support::is<fssdp::deadline_exceeded>(ended.of_rank[0]));
  REQUIRE(ended.of_rank[1] == nullptr);
  REQUIRE(support::is<fssdp::deadline_exceeded>(ended.of_rank[2]));
}

TEST_CASE("a communicator that has failed enqueues nothing, and allocates nothing") {
  gpu_double::reset();
  auto const of = everywhere_plan{soon.ranks};
  auto done = std::string{"nobody has failed"};
  auto allocated = 0;
  (void)outcome_of(of, [&](nccl_communicator& comm) {
    if (comm.rank() != rank_id{0}) return;
    try {
      gather_and_wait(comm, of);
    } catch (fssdp::transport_error const&) {
      auto const before = gpu_double::async_allocations();
      done = support::work_after_failure(comm);
      allocated = gpu_double::async_allocations() - before;
    }
  });
  REQUIRE(done == "");
  REQUIRE(allocated == 0);
}

TEST_CASE("a rank that never comes is noticed when the communicator is made") {
  gpu_double::reset();
  auto id = ncclUniqueId{};
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  auto const stream = fssdp::make_cuda_stream();
  REQUIRE_THROWS_AS(
      (nccl_communicator{id, 2, rank_id{0}, stream.get(), {.deadline = soon.deadline}}),
      fssdp::deadline_exceeded);
  REQUIRE_THROWS_WITH((nccl_communicator{id, 2, rank_id{2}, stream.get()}),
                      mentions("rank 2 of 2 ranks"));
}

TEST_CASE("a communicator whose graphs live is not closed, which says why") {
  gpu_double::reset();
  auto const of = everywhere_plan{soon.ranks};
  auto const ended = outcome_of(of, [&](nccl_communicator& comm) {
    auto mine = everywhere_buffers{of, comm};
    auto const graph = nccl_tests::captured(
        comm, [&] { fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.all); });
    comm.close();
  });
  for (auto const& thrown : ended.of_rank) {
    REQUIRE(support::is<fssdp::deadline_exceeded>(thrown));
    REQUIRE_THAT(support::text(thrown), mentions("graphs that were captured"));
  }
  REQUIRE(all_communicators_go());
}

TEST_CASE("a rank that closes its communicator alone waits no longer than the deadline") {
  gpu_double::reset();
  auto const thrown = nccl_tests::thrown_by(soon, [](nccl_communicator& comm) {
    if (comm.rank() == rank_id{0}) comm.close();
  });
  REQUIRE(thrown[0] == nullptr);  // the others close after their work
  auto id = ncclUniqueId{};
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  auto alone = std::exception_ptr{};
  auto const closes = [&](int rank) {
    cudaSetDevice(rank);
    auto const stream = fssdp::make_cuda_stream();
    auto comm = nccl_communicator{id, 2, rank_id{rank}, stream.get(), {.deadline = soon.deadline}};
    if (rank == 1) return;
    try {
      comm.close();
    } catch (...) {
      alone = std::current_exception();
    }
  };
  auto other = std::thread{closes, 1};
  closes(0);
  other.join();
  REQUIRE(support::is<fssdp::deadline_exceeded>(alone));
}
