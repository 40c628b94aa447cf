// SPDX-License-Identifier: Apache-2.0
/// Communicators that the caller has made, registered memory, duplicates on streams of their own.
#include <thread>

#include "catch.hpp"
#include "nccl/everywhere_plan.hpp"

using fssdp::nccl_communicator;

namespace {

/// Two ranks with blocking communicators of their own.
template <class Work>
void with_own_communicators(Work work) {
  auto id = ncclUniqueId{};
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  auto const run = [&](int rank) {
    cudaSetDevice(rank);
    auto const stream = fssdp::make_cuda_stream();
    auto comm = ncclComm_t{};
    (void)ncclCommInitRankConfig(&comm, 2, id, rank, nullptr);
    work(comm, stream.get());
    ncclCommFinalize(comm);
    ncclCommDestroy(comm);
  };
  auto other = std::thread{run, 1};
  run(0);
  other.join();
}

}  // namespace

TEST_CASE("a nccl_ref borrows the caller's communicator and leaves it alone") {
  gpu_double::reset();
  auto const of = nccl_tests::everywhere_plan{2};
  auto right = std::atomic{0};
  with_own_communicators([&](ncclComm_t handle, cudaStream_t stream) {
    auto comm = fssdp::nccl_ref{handle, stream, {.kernels = gpu_double::kernels()}};
    auto mine = nccl_tests::everywhere_buffers{of, comm};
    mine.gather_and_reduce(comm, of.plan);
    comm.synchronize();
    right += comm.size() == 2 && comm.handle() == handle &&
                     mine.gradients_are(static_cast<float>(2 * (comm.rank().value() + 1)))
                 ? 1
                 : 0;
  });
  REQUIRE(right == 2);
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

TEST_CASE("memory stays registered until the registration ends, in any order of destruction") {
  gpu_double::reset();
  auto const registered = nccl_tests::results_of({.ranks = 2}, [](nccl_communicator& comm) {
    auto const arena = fssdp::cuda_memory{4096, comm.rank()};
    auto one = fssdp::nccl_registration{comm, arena.bytes()};
    auto const other = std::move(one);
    comm.close();  // it outlives its communicator: then there is nothing to take back
    return other.is_registered() && !one.is_registered() ? 1 : 0;
  });
  REQUIRE(registered == std::vector{1, 1});
}

TEST_CASE("duplicates work on streams of their own, side by side") {
  gpu_double::reset();
  auto const of = nccl_tests::everywhere_plan{3};
  auto const right = nccl_tests::results_of({.ranks = 3}, [&](nccl_communicator& comm) {
    auto const stream = fssdp::make_cuda_stream(comm.rank());
    auto streamed = comm.duplicate(stream.get());
    auto mine = nccl_tests::everywhere_buffers{of, comm};
    auto others = nccl_tests::everywhere_buffers{of, comm};
    mine.gather_and_reduce(comm, of.plan);
    others.gather_and_reduce(streamed, of.plan);
    streamed.synchronize();
    comm.synchronize();
    streamed.close();
    auto const sum = static_cast<float>(3 * (comm.rank().value() + 1));
    return mine.gradients_are(sum) && others.gradients_are(sum) ? 1 : 0;
  });
  REQUIRE(right == std::vector{1, 1, 1});
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}
