// SPDX-License-Identifier: Apache-2.0
/// One rank over NCCL that is a process, among others that may share its device
/// (nccl_processes.sh). Gathers and reductions, by many placements and cuts, leave the bits that
/// they leave on threads; so do those of a duplicate. A graph is launched again and again. A rank
/// that stalls ends all of them in time, a new communicator works; so does what shrinks, with and
/// without a rank that stalls, where three are left or more. usage: gpu_nccl_process RANK
/// RANKS FILE   they meet in files whose names begin with FILE
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#include "fssdp/collective/memory_required.hpp"
#include "fssdp/collective/warm_up.hpp"
#include "fssdp/comm/nccl.hpp"
#include "gpu/compare_with_threads.hpp"
#include "gpu/nccl_processes.hpp"
#include "nccl/captured.hpp"
#include "nccl/everywhere_plan.hpp"

namespace {

using fssdp::rank_id;

constexpr auto instances = 60;
constexpr auto patience = std::chrono::seconds{10};  // of ranks that share a device and connect
constexpr auto deadline = std::chrono::seconds{60};

/// What all these instances have been, so that a run which has tried little shows.
struct variety {
  int transfers = 0;
  int rounds = 0;  // the most of one plan
  int pieces = 0;  // likewise
  int relays = 0;  // plans in which pieces are passed on through others

  void add(fssdp::transfer_plan const& plan) {
    transfers += static_cast<int>(plan.transfers().size());
    rounds = std::max(rounds, plan.rounds());
    pieces = std::max(pieces, plan.pieces());
    auto forwarded = std::size_t{0};
    for (auto const rank : fssdp::first_n<rank_id>(plan.ranks()))
      forwarded += plan.forwarded(rank).size();
    relays += forwarded != 0 ? 1 : 0;
  }
};

void compare(fssdp::nccl_communicator& comm, int plans, variety& tried) {
  gpu_tests::compare_with_threads(comm, plans, "NCCL", [&](fssdp::transfer_plan const& plan) {
    fssdp::warm_up(comm, plan);
    tried.add(plan);
  });
}

/// A graph of a gather and a reduction moves what is there when it is launched.
void replay(fssdp::nccl_communicator& comm) {
  auto const of = support::everywhere_plan{comm.size()};
  auto mine = nccl_tests::everywhere_buffers{of, comm};
  auto const use = fssdp::memory_required<float>(of.plan, comm.rank(), of.elements);
  auto const scratch = fssdp::cuda_memory{use.gather_scratch + use.reduce_scratch + 1, comm.rank()};
  fssdp::warm_up(comm, of.plan);
  auto const graph = nccl_tests::captured(
      comm, [&] { mine.gather_and_reduce(comm, of.plan, {.device_scratch = scratch.bytes()}); });
  for (auto const value : {1.0F, 5.0F, 2.0F}) {
    mine.set(value);
    fssdp::detail::cuda_require(cudaGraphLaunch(graph.get(), comm.stream()), comm.rank(),
                                "cudaGraphLaunch");
    comm.synchronize();
    if (!mine.gradients_are(static_cast<float>(comm.size()) * value))
      throw std::runtime_error{"a graph that is launched leaves other sums"};
  }
}

/// A byte from every rank to every other.
void meet(fssdp::nccl_communicator& comm, std::span<std::byte> bytes) {
  comm.exchange([&](auto& batch) {
    for (auto const peer : fssdp::first_n<rank_id>(comm.size())) {
      if (peer == comm.rank()) continue;
      batch.send(bytes.subspan(comm.rank().index(), 1), peer);
      batch.recv(bytes.subspan(peer.index(), 1), peer);
    }
  });
}

/// The last rank comes too late, and a graph of the communicator lives. The others must notice; it
/// may find that all it wants has come: a network takes small messages of those who have given up
/// since.
void stall(fssdp::nccl_communicator& comm) {
  auto const stalls = comm.rank().value() == comm.size() - 1;
  auto const memory = fssdp::cuda_memory{static_cast<std::size_t>(comm.size()), comm.rank()};
  meet(comm, memory.bytes());
  comm.synchronize();
  auto const graph = nccl_tests::captured(comm, [&] { meet(comm, memory.bytes()); });
  if (stalls) std::this_thread::sleep_for(2 * patience);
  auto const begin = std::chrono::steady_clock::now();
  try {
    meet(comm, memory.bytes());
    comm.synchronize();
  } catch (fssdp::transport_error const&) {
    if (std::chrono::steady_clock::now() - begin < 2 * patience) return;
    throw std::runtime_error{"a rank that stalls was noticed too late"};
  }
  if (!stalls) throw std::runtime_error{"a rank that stalls was not noticed"};
}

/// The others go on without the last rank, which is there, or stalls.
void go_on_without_last(fssdp::nccl_communicator& comm, variety& tried) {
  auto left = comm.without(std::array{rank_id{comm.size() - 1}});
  if (left.rank() != comm.rank() || left.size() != comm.size() - 1)
    throw std::runtime_error{"a communicator without the last rank has other ranks"};
  compare(left, instances / 10, tried);
  left.close();
}

/// The last rank does not come, and is left out.
void lose_last(fssdp::nccl_communicator& comm, variety& tried) {
  auto const memory = fssdp::cuda_memory{static_cast<std::size_t>(comm.size()), comm.rank()};
  meet(comm, memory.bytes());
  comm.synchronize();
  if (comm.rank().value() == comm.size() - 1) return std::this_thread::sleep_for(2 * patience);
  try {
    meet(comm, memory.bytes());
    comm.synchronize();
  } catch (fssdp::transport_error const&) {
    return go_on_without_last(comm, tried);
  }
  throw std::runtime_error{"a rank that is lost was not noticed"};
}

void run(rank_id me, int ranks, std::filesystem::path const& file) {
  auto processes = gpu_tests::nccl_processes{me, ranks, file};
  auto const stream = fssdp::make_cuda_stream(me);
  auto comm = processes.made(stream.get(), {.deadline = deadline});
  auto tried = variety{};
  {
    auto const arena = fssdp::nccl_memory{std::size_t{1} << 21U, me};
    auto const registered = fssdp::nccl_registration{comm, arena};
    compare(comm, instances, tried);
    comm.synchronize();
    if (me == rank_id{0})
      std::printf(
          "%d ranks: %d placements, %d transfers, up to %d pieces and %d rounds, %d with "
          "relays: the bits of threads; an arena is %s\n",
          ranks, instances, tried.transfers, tried.pieces, tried.rounds, tried.relays,
          registered.is_window()       ? "a window"
          : registered.is_registered() ? "registered"
                                       : "not registered: NCCL does not take it");
  }
  replay(comm);
  auto const other_stream = fssdp::make_cuda_stream(me);
  auto streamed = comm.duplicate(other_stream.get());
  auto beside = variety{};
  compare(streamed, instances / 10, beside);
  streamed.close();
  if (ranks >= 3 && me != rank_id{ranks - 1}) go_on_without_last(comm, beside);
  comm.close();
  {
    auto fails = processes.made(stream.get(), {.deadline = patience});
    stall(fails);
  }
  if (ranks >= 3) {
    auto shrinks = processes.made(stream.get(), {.deadline = patience, .may_shrink = true});
    lose_last(shrinks, beside);
  }
  auto again = processes.made(stream.get(), {.deadline = deadline});
  compare(again, instances / 10, beside);
  again.close();
  if (me == rank_id{0})
    std::printf(
        "%d ranks: a graph, a duplicate, one that stalls and a new communicator%s: as expected\n",
        ranks, ranks >= 3 ? ", one without the last rank, there or lost" : "");
}

}  // namespace

int main(int arguments, char** values) {
  if (arguments != 4) {
    std::fprintf(stderr, "usage: %s RANK RANKS FILE\n", values[0]);
    return 2;
  }
  auto const me = rank_id{std::atoi(values[1])};
  try {
    run(me, std::atoi(values[2]), values[3]);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "rank %d: %s\n", me.value(), error.what());
    return 1;
  }
}
