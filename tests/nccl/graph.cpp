// SPDX-License-Identifier: Apache-2.0
/// Gathers and reductions by a plan that is known become a graph, which is launched again and
/// again.
#include <barrier>
#include <thread>

#include "catch.hpp"
#include "fssdp/collective/memory_required.hpp"
#include "fssdp/collective/warm_up.hpp"
#include "nccl/captured.hpp"
#include "nccl/everywhere_plan.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::nccl_communicator;
using nccl_tests::captured;
using nccl_tests::everywhere_buffers;
using nccl_tests::everywhere_plan;

TEST_CASE("a graph of a gather and a reduction moves what is there when it is launched") {
  gpu_double::reset();
  auto const of = everywhere_plan{4};
  auto const wrong = nccl_tests::results_of({.ranks = 4}, [&](nccl_communicator& comm) {
    auto mine = everywhere_buffers{of, comm};
    auto const use = fssdp::memory_required<float>(of.plan, comm.rank(), of.elements);
    auto const scratch = fssdp::cuda_memory{use.gather_scratch + use.reduce_scratch};
    fssdp::warm_up(comm, of.plan);
    mine.gather_and_reduce(comm, of.plan);  // still under way when the capture begins
    auto const graph = captured(
        comm, [&] { mine.gather_and_reduce(comm, of.plan, {.device_scratch = scratch.bytes()}); });
    comm.synchronize();
    auto const once = static_cast<float>(4 * (comm.rank().value() + 1));
    auto count = mine.gradients_are(once) ? 0 : 1;
    for (auto const value : {1.0F, 5.0F, 2.0F}) {
      mine.set(value);
      cudaGraphLaunch(graph.get(), comm.stream());
      comm.synchronize();
      count += mine.gradients_are(4 * value) ? 0 : 1;
    }
    return count;
  });
  REQUIRE(wrong == std::vector{0, 0, 0, 0});
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

TEST_CASE("waiting for a communicator does not break a graph that another thread captures") {
  gpu_double::reset();
  auto const of = everywhere_plan{2};
  auto steps =
      std::barrier{3};  // all is enqueued, the capture has begun, communicators are idle, it ends
  auto code = cudaErrorUnknown;
  auto captures = std::jthread{[&] {
    auto const stream = fssdp::make_cuda_stream();
    auto graph = cudaGraph_t{};
    steps.arrive_and_wait();
    cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal);
    steps.arrive_and_wait();
    steps.arrive_and_wait();
    code = cudaStreamEndCapture(stream.get(), &graph);
    cudaGraphDestroy(graph);
    steps.arrive_and_wait();
  }};
  auto const failed = nccl_tests::results_of({.ranks = 2}, [&](nccl_communicator& comm) {
    auto mine = everywhere_buffers{of, comm};
    mine.gather_and_reduce(comm, of.plan);
    steps.arrive_and_wait();
    steps.arrive_and_wait();
    auto failures = 0;
    try {
      comm.synchronize();
    } catch (fssdp::transport_error const&) {
      failures = 1;
    }
    steps.arrive_and_wait();
    steps.arrive_and_wait();
    return failures;
  });
  captures.join();
  REQUIRE(failed == std::vector{0, 0});
  REQUIRE(code == cudaSuccess);
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

TEST_CASE("a plan that is new cannot be captured") {
  gpu_double::reset();
  auto const of = everywhere_plan{2};
  auto const thrown = nccl_tests::thrown_by({.ranks = 2}, [&](nccl_communicator& comm) {
    auto mine = everywhere_buffers{of, comm};
    (void)captured(comm, [&] { mine.gather_and_reduce(comm, of.plan); });
  });
  for (auto const& of_rank : thrown) {
    REQUIRE(support::is<fssdp::argument_error>(of_rank));
    REQUIRE_THAT(support::text(of_rank), mentions("warm_up"));
  }
}
