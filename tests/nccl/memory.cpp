// SPDX-License-Identifier: Apache-2.0
/// Which memory a device uses: what it is given, and nothing of the host's.
#include <array>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/memory_required.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/plan/schedule.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "nccl/devices.hpp"
#include "support/rank_buffers.hpp"

using fssdp::bf16;
using fssdp::nccl_communicator;

namespace {

constexpr auto elements = std::size_t{1500};

/// Experts in three pieces that ranks pass on, on three nodes: as if they were large, since small
/// ones go straight to everybody.
[[nodiscard]] fssdp::transfer_plan relayed_plan() {
  auto const layout = fssdp::block_layout{{.experts = 6, .ranks = 6}};
  auto const topo = fssdp::topology{{.nodes = 3, .ranks = 6}};
  return schedule(make_plan(layout, fssdp::everywhere{}(layout), topo), 48'000'000,
                  {.piece_bytes = 16'000'000});
}

/// What a rank reads and writes, all in one block of a device.
struct device_buffers {
  fssdp::memory_use use;
  fssdp::cuda_memory arena;
  fssdp::expert_tensor<float> shard;
  fssdp::expert_tensor<bf16> replicas;
  fssdp::expert_tensor<float> gradients;
  std::span<std::byte> scratch;

  device_buffers(fssdp::transfer_plan const& plan, fssdp::rank_id rank)
      : use{fssdp::memory_required<float, bf16, bf16>(plan, rank, elements)},
        arena{4 * use.total() + (1U << 20U)} {
    auto* next = arena.bytes().data();
    auto const cut = [&](std::size_t bytes) {
      return std::exchange(next, next + fssdp::detail::padded(bytes));
    };
    auto const tensor = [&]<class T>(std::type_identity<T>, std::size_t slots) {
      return fssdp::expert_tensor<T>{reinterpret_cast<T*>(cut(slots * elements * sizeof(T))), slots,
                                     elements};
    };
    shard = tensor(std::type_identity<float>{}, plan.owned_count(rank));
    replicas = tensor(std::type_identity<bf16>{}, plan.materialized(rank).size());
    gradients = tensor(std::type_identity<float>{}, plan.owned_count(rank));
    scratch = {cut(use.gather_scratch + use.reduce_scratch),
               use.gather_scratch + use.reduce_scratch};
  }
};

/// Calls work on every rank and returns what went wrong there.
template <class Work>
[[nodiscard]] std::vector<std::string> complaints(fssdp::transfer_plan const& plan, Work work) {
  auto all = gpu_double::violations();
  for (auto const& thrown : nccl_tests::thrown_by({.ranks = plan.ranks()}, work))
    if (thrown) all.push_back(fssdp::detail::what(thrown));
  for (auto const& violation : gpu_double::violations()) all.push_back(violation);
  return all;
}

void gather_and_reduce(nccl_communicator& comm, fssdp::transfer_plan const& plan,
                       device_buffers& mine, std::span<std::byte> scratch) {
  fssdp::sparse_all_gather(comm, plan, mine.shard, mine.replicas, {.device_scratch = scratch});
  fssdp::sparse_reduce_scatter(comm, plan, mine.replicas, mine.gradients,
                               {.device_scratch = scratch});
}

}  // namespace

TEST_CASE(
    "memory_required tells how much of a device's memory is enough, and nothing is allocated") {
  gpu_double::reset({.only_device_memory = true});
  auto const plan = relayed_plan();
  REQUIRE(plan.rounds() > 1);
  auto allocated = std::atomic{0};
  auto const wrong = complaints(plan, [&](nccl_communicator& comm) {
    auto mine = device_buffers{plan, comm.rank()};
    for (auto const& tensor : {mine.shard})
      for (std::size_t i = 0; i < tensor.slots * tensor.elements; ++i) tensor.data[i] = 1;
    auto const before = gpu_double::async_allocations();
    gather_and_reduce(comm, plan, mine, mine.scratch);
    comm.synchronize();
    allocated += gpu_double::async_allocations() - before;
    for (std::size_t i = 0; i < elements; ++i)
      if (mine.gradients.data[i] != 6) throw std::runtime_error{"a wrong sum"};
  });
  REQUIRE(wrong == std::vector<std::string>{});
  REQUIRE(allocated == 0);
}

TEST_CASE("scratch that is not given is allocated on the stream, and freed") {
  gpu_double::reset({.only_device_memory = true});
  auto const plan = relayed_plan();
  auto const before = gpu_double::live_allocations();
  auto const allocated = gpu_double::async_allocations();
  REQUIRE(complaints(plan, [&](nccl_communicator& comm) {
            auto mine = device_buffers{plan, comm.rank()};
            gather_and_reduce(comm, plan, mine, {});
            comm.synchronize();
          }) == std::vector<std::string>{});
  REQUIRE(gpu_double::async_allocations() > allocated);
  REQUIRE(gpu_double::live_allocations() == before);
}

TEST_CASE("device scratch that is too small is refused before anything is sent") {
  gpu_double::reset();
  auto const plan = relayed_plan();
  auto const wrong = complaints(plan, [&](nccl_communicator& comm) {
    auto mine = device_buffers{plan, comm.rank()};
    gather_and_reduce(comm, plan, mine, mine.scratch.first(64));
  });
  REQUIRE(wrong.size() == 6);
  for (auto const& text : wrong) REQUIRE_THAT(text, mentions("device_scratch: 64 bytes"));
}

TEST_CASE("host memory is detected") {
  gpu_double::reset({.only_device_memory = true});
  nccl_tests::on_devices({.ranks = 2}, [](nccl_communicator& comm) {
    auto bytes = std::array<std::byte, 2>{};
    auto const peer = fssdp::rank_id{1 - comm.rank().value()};
    comm.exchange([&](auto& batch) {
      batch.send(std::span{bytes}.first(1), peer);
      batch.recv(std::span{bytes}.last(1), peer);
    });
    comm.synchronize();
  });
  REQUIRE(gpu_double::violations().size() == 4);
}

TEST_CASE("sums on a device without kernels are refused by name") {
  gpu_double::reset();
  auto const layout = fssdp::block_layout{{.experts = 1, .ranks = 1}};
  auto const plan = make_plan(layout, fssdp::placement{layout});
  auto partials = fssdp::make_partials<float>(plan, fssdp::rank_id{0}, 3);
  auto gradients = fssdp::make_shard<float>(layout, fssdp::rank_id{0}, 3);
  auto const reduce = [&](nccl_communicator& comm) {
    fssdp::sparse_reduce_scatter(comm, plan, partials, gradients);
  };
  REQUIRE_THROWS_WITH((fssdp::nccl_world{{}, 1}.run(reduce)), mentions("cuda_kernels"));
}
