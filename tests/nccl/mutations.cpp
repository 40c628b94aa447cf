// SPDX-License-Identifier: Apache-2.0
/// A back end that does one thing wrong is caught by the double, and so are programs that do.
#include <chrono>
#include <semaphore>
#include <thread>

#include "catch.hpp"
#include "nccl/everywhere_plan.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::nccl_communicator;
using gpu_double::mutation;

namespace {

constexpr auto too_long = std::chrono::milliseconds{20'000};
constexpr auto of_three = nccl_tests::world{.ranks = 3, .deadline = std::chrono::milliseconds{300}};

/// What the double says when the back end is mutated; every rank must have ended with an error.
[[nodiscard]] std::string said_of(mutation how) {
  gpu_double::reset({.report_after = of_three.deadline / 3, .back_end = how});
  auto const failed = nccl_tests::failures(of_three);
  REQUIRE(failed.size() == static_cast<std::size_t>(of_three.ranks));
  for (auto const& thrown : failed) REQUIRE(support::is<fssdp::transport_error>(thrown));
  auto all = std::string{};
  for (auto const& violation : gpu_double::violations()) all += violation + "\n";
  return all;
}

/// Two ranks that call NCCL themselves, in threads: calls(rank, comm, stream), which the double is
/// to find wrong.
template <class Calls>
void on_two_ranks(Calls calls) {
  auto id = ncclUniqueId{};
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  auto const run = [&](int rank) {
    cudaSetDevice(rank);
    auto comm = ncclComm_t{};
    auto const stream = fssdp::make_cuda_stream();
    (void)ncclCommInitRankConfig(&comm, 2, id, rank, nullptr);
    calls(rank, comm, stream.get());
    for (auto ms = 0; ms < 20'000 && gpu_double::violations().empty(); ++ms)
      std::this_thread::sleep_for(std::chrono::milliseconds{1});  // the peer may need this rank
    ncclCommAbort(comm);
  };
  auto other = std::thread{run, 1};
  run(0);
  other.join();
}

}  // namespace

TEST_CASE("the unmodified back end breaks no rule") {
  gpu_double::reset();
  REQUIRE(nccl_tests::failures(of_three).empty());
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

TEST_CASE("messages in another order are caught") {
  REQUIRE_THAT(said_of(mutation::other_order), mentions("bytes meets one of"));
}
TEST_CASE("a group in two parts is caught") {
  REQUIRE_THAT(said_of(mutation::two_groups), mentions("of one end meets group"));
}
TEST_CASE("a lost message is caught") {
  REQUIRE_THAT(said_of(mutation::lost_message), mentions("unmatched: rank"));
}
TEST_CASE("a relay in one group is caught") {
  REQUIRE_THAT(said_of(mutation::relay), mentions("sends in a group what the group receives"));
}

TEST_CASE("a call while a communicator is in progress is caught") {
  gpu_double::reset();
  auto id = ncclUniqueId{};
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  auto const stream = fssdp::make_cuda_stream();
  auto comm = nccl_communicator{id, 1, fssdp::rank_id{0}, stream.get()};
  auto bytes = std::array<std::byte, 2>{};
  REQUIRE(ncclAllGather(bytes.data(), bytes.data() + 1, 1, ncclUint8, comm.handle(),
                        stream.get()) == ncclInProgress);
  REQUIRE(ncclAllGather(bytes.data(), bytes.data() + 1, 1, ncclUint8, comm.handle(),
                        stream.get()) == ncclInvalidUsage);
  REQUIRE(gpu_double::violations().size() == 1);
}

TEST_CASE("a collective that meets a message is caught") {
  gpu_double::reset();
  auto bytes = std::array<std::array<std::byte, 4>, 2>{};
  on_two_ranks([&](int rank, ncclComm_t comm, cudaStream_t stream) {
    auto& mine = bytes[static_cast<std::size_t>(rank)];
    if (rank == 0) (void)ncclAllGather(mine.data(), mine.data() + 1, 1, ncclUint8, comm, stream);
    if (rank == 1) (void)ncclRecv(mine.data(), 1, ncclUint8, 0, comm, stream);
  });
  REQUIRE_FALSE(gpu_double::violations().empty());
  for (auto const& said : gpu_double::violations())
    REQUIRE_THAT(said, mentions("a message meets a collective"));
}

TEST_CASE("a lost event is detected: a stream that does not wait reads old values") {
  for (auto const waits : {true, false}) {
    gpu_double::reset();
    auto seen = std::byte{};
    auto has_seen = std::binary_semaphore{0};
    nccl_tests::on_devices({.ranks = 2}, [&](nccl_communicator& comm) {
      auto byte = comm.rank() == fssdp::rank_id{0} ? std::byte{1} : std::byte{2};
      auto const peer = fssdp::rank_id{1 - comm.rank().value()};
      if (comm.rank() == fssdp::rank_id{0}) {  // comes late
        (void)has_seen.try_acquire_for(waits ? std::chrono::milliseconds{50} : too_long);
        comm.exchange([&](auto& batch) { batch.send({&byte, 1}, peer); });
      } else {
        comm.exchange([&](auto& batch) { batch.recv({&byte, 1}, peer); });
        auto const computes = fssdp::make_cuda_stream();
        auto const arrived = fssdp::detail::make_cuda_event(comm.rank());
        cudaEventRecord(arrived.get(), comm.stream());
        if (waits) cudaStreamWaitEvent(computes.get(), arrived.get(), 0);
        cudaMemcpyAsync(&seen, &byte, 1, cudaMemcpyDeviceToDevice, computes.get());
        cudaStreamSynchronize(computes.get());
        has_seen.release();
      }
      comm.synchronize();
    });
    REQUIRE(seen == (waits ? std::byte{1} : std::byte{2}));
  }
}
