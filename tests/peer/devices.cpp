// SPDX-License-Identifier: Apache-2.0
/// Which device a rank is on, whose memory it may read, and what a world refuses.
#include "peer/devices.hpp"
#include "peer/everywhere_buffers.hpp"

#include <array>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/all_gather.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/cuda/cuda_pinned_memory.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/plan/schedule.hpp"
#include "support/communicator_extras.hpp"

using fssdp::peer_communicator;
using fssdp::rank_id;

TEST_CASE("ranks share devices in turn") {
  gpu_double::reset({.devices = 3});
  auto world = fssdp::peer_world{{.ranks = 5}};
  REQUIRE(world.size() == 5);
  auto current = std::vector<int>(5, -1);
  world.run([&](peer_communicator& comm) { cudaGetDevice(&current[comm.rank().index()]); });
  REQUIRE(current == std::vector{0, 1, 2, 0, 1});
  REQUIRE(world.device_of(rank_id{4}) == 1);
  REQUIRE(fssdp::peer_world{}.size() == 3);
}

TEST_CASE("the caller's device stays the current one") {
  gpu_double::reset({.devices = 3});
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  fssdp::peer_world{{.ranks = 3}}.run([](peer_communicator&) {});
  auto device = -1;
  REQUIRE(cudaGetDevice(&device) == cudaSuccess);
  REQUIRE(device == 1);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
}

TEST_CASE("a world of devices refuses unsupported options, which it names") {
  gpu_double::reset({.devices = 2});
  REQUIRE_THROWS_WITH((fssdp::peer_world{{.devices = 3}}), mentions("3 devices; expected 0 to 2"));
  REQUIRE_THROWS_WITH((fssdp::peer_world{{.ranks = -1}}), mentions("-1 ranks"));
  REQUIRE_THROWS_WITH((fssdp::peer_world{{.copies = fssdp::copied_by::kernels}}),
                      mentions("cuda_kernels()"));
  gpu_double::reset({.devices = 0});
  REQUIRE_THROWS_AS((fssdp::peer_world{}), fssdp::transport_error);
  gpu_double::reset({.devices = 2, .peer_access = false});
  REQUIRE_THROWS_WITH((fssdp::peer_world{}), mentions("device 0 cannot read the memory of"));
  REQUIRE((fssdp::peer_world{{.ranks = 4, .devices = 1}}).size() == 4);  // nothing to read
}

TEST_CASE("memory of cudaMalloc and of the communicator is open to all devices") {
  gpu_double::reset({.devices = 4});
  for (auto const copies : {fssdp::copied_by::engines, fssdp::copied_by::kernels}) {
    auto const right =
        peer_tests::results_of({.ranks = 4, .copies = copies}, [](peer_communicator& comm) {
          auto const arena = fssdp::cuda_memory{64};
          auto const from_lane = comm.allocate(64);
          auto const next = rank_id{(comm.rank().value() + 1) % 4};
          auto const last = rank_id{(comm.rank().value() + 3) % 4};
          auto const mine = std::vector<std::byte>(32, std::byte(comm.rank().value()));
          comm.copy(arena.bytes().first(32), mine);
          comm.copy(from_lane.first(32), mine);
          comm.exchange([&](auto& batch) {
            batch.send(arena.bytes().first(32), next);
            batch.send(from_lane.first(32), next);
            batch.recv(from_lane.last(32), last);
            batch.recv(arena.bytes().last(32), last);
          });
          comm.free(from_lane);
          comm.synchronize();
          return arena.bytes().back() == std::byte(last.value()) ? 1 : 0;
        });
    REQUIRE(right == std::vector{1, 1, 1, 1});
  }
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

TEST_CASE("the double reports memory that is not open to a device") {
  gpu_double::reset({.devices = 8});
  auto device = 0;
  REQUIRE(cudaGetDevice(&device) == cudaSuccess);
  REQUIRE(cudaSetDevice(7) == cudaSuccess);
  auto const far = fssdp::cuda_memory{16};
  REQUIRE(cudaSetDevice(6) == cudaSuccess);  // no world has had so many devices
  auto const near = fssdp::cuda_memory{16};
  auto const stream = fssdp::make_cuda_stream();
  auto copies = fssdp::detail::peer_copies{};
  copies.add(fssdp::detail::copy_way::between_devices, near.bytes(), far.bytes());
  copies.enqueue_on_engines(stream.get(), rank_id{0});
  auto const kernels = gpu_double::kernels();
  REQUIRE(kernels.load() == cudaSuccess);
  auto launches = fssdp::detail::copy_launches{stream.get(), rank_id{0}, kernels, 0};
  launches.add(copies);
  launches.end();
  REQUIRE(cudaSetDevice(device) == cudaSuccess);
  REQUIRE(gpu_double::violations().size() == 2);
}

TEST_CASE("by default kernels copy where ranks share a device, if there are kernels") {
  gpu_double::reset({.devices = 3});
  auto const of = support::everywhere_plan{3};
  auto const copies_made = [&](int devices, fssdp::device_kernels const& kernels) {
    auto const before = gpu_double::launches();
    fssdp::peer_world{{.ranks = 3, .devices = devices, .kernels = kernels}}.run(
        [&](peer_communicator& comm) {
          auto mine = peer_tests::everywhere_buffers{of, comm.rank()};
          fssdp::sparse_all_gather(comm, of.plan, mine.shard, mine.all);
          comm.synchronize();
        });
    return gpu_double::launches() - before;
  };
  auto without = gpu_double::kernels();
  without.copy = nullptr;
  REQUIRE(copies_made(1, gpu_double::kernels()) == 1);  // for all ranks at once
  REQUIRE(copies_made(3, gpu_double::kernels()) == 0);
  REQUIRE(copies_made(1, without) == 0);
}

TEST_CASE("work that was deferred is dropped when its submitter throws") {
  gpu_double::reset();
  auto const launches = peer_tests::results_of(
      {.ranks = 1, .copies = fssdp::copied_by::kernels}, [](peer_communicator& comm) {
        auto const memory = fssdp::cuda_memory{128, comm.rank()};
        auto const before = gpu_double::launches();
        auto const copy = [&](peer_communicator& inner) {
          inner.copy(memory.bytes().first(64), memory.bytes().last(64));
        };
        try {
          comm.submit([&](peer_communicator& inner) {
            copy(inner);
            throw std::runtime_error{"no more"};
          });
        } catch (std::runtime_error const&) {
        }
        comm.synchronize();
        auto const of_one_that_throws = gpu_double::launches() - before;
        comm.submit(copy);
        comm.synchronize();
        return std::pair{of_one_that_throws, gpu_double::launches() - before};
      });
  REQUIRE(launches == std::vector{std::pair{0, 1}});
}

TEST_CASE("copy engines are used between devices only") {
  gpu_double::reset();
  constexpr auto ranks = 4;
  peer_tests::on_devices({.ranks = ranks, .devices = 2}, [](peer_communicator& comm) {
    auto const memory = fssdp::cuda_memory{ranks, comm.rank()};
    comm.exchange([&](auto& batch) {
      for (auto const peer : fssdp::first_n<rank_id>(ranks)) {
        if (peer == comm.rank()) continue;
        batch.send(memory.bytes().subspan(comm.rank().index(), 1), peer);
        batch.recv(memory.bytes().subspan(peer.index(), 1), peer);
      }
    });
    comm.synchronize();
  });
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

TEST_CASE("kernels are loaded when a communicator is made, not when they are launched") {
  for (auto const ahead : {true, false}) {
    gpu_double::reset();
    auto options = peer_tests::options_of({.ranks = 2, .copies = fssdp::copied_by::kernels});
    if (!ahead) options.kernels.load = nullptr;
    auto const of = support::everywhere_plan{2};
    fssdp::peer_world{options}.run([&](peer_communicator& comm) {
      auto mine = peer_tests::everywhere_buffers{of, comm.rank()};
      mine.gather_and_reduce(comm, of.plan);
      comm.synchronize();
    });
    REQUIRE(gpu_double::violations().empty() == ahead);
    for (auto const& said : gpu_double::violations())
      REQUIRE_THAT(said, mentions("a kernel is loaded when it is launched"));
  }
}

TEST_CASE("duplicates between devices of one process work on streams of their own, side by side") {
  gpu_double::reset();
  auto const of = support::everywhere_plan{3};
  auto const right = peer_tests::results_of({.ranks = 3}, [&](peer_communicator& comm) {
    auto const stream = fssdp::make_cuda_stream(comm.rank());
    auto streamed = comm.duplicate(stream.get());
    auto mine = peer_tests::everywhere_buffers{of, comm.rank()};
    auto others = peer_tests::everywhere_buffers{of, comm.rank()};
    mine.gather_and_reduce(comm, of.plan);
    others.gather_and_reduce(streamed, of.plan);
    streamed.synchronize();
    comm.synchronize();
    auto const sum = static_cast<float>(3 * (comm.rank().value() + 1));
    return mine.gradients_are(sum) && others.gradients_are(sum) ? 1 : 0;
  });
  REQUIRE(right == std::vector{1, 1, 1});
}

TEST_CASE("an exchange is refused while a graph is captured") {
  gpu_double::reset();
  auto const thrown = peer_tests::thrown_by({.ranks = 1}, [](peer_communicator& comm) {
    auto graph = cudaGraph_t{};
    cudaStreamBeginCapture(comm.stream(), cudaStreamCaptureModeThreadLocal);
    try {
      comm.exchange([](auto&) {});
    } catch (fssdp::argument_error const&) {
      cudaStreamEndCapture(comm.stream(), &graph);
      cudaGraphDestroy(graph);
      throw;
    }
  });
  REQUIRE_THROWS_AS(std::rethrow_exception(thrown[0]), fssdp::argument_error);
}

TEST_CASE("pinned memory is there for all devices, aligned, and goes back") {
  gpu_double::reset();
  auto const before = gpu_double::live_allocations();
  auto pinned = fssdp::cuda_pinned_memory{rank_id{3}};
  {
    auto const buffer = fssdp::expert_buffer<float>{3, std::vector<std::size_t>{5, 7}, &pinned};
    REQUIRE(gpu_double::live_allocations() == before + 1);
    REQUIRE(gpu_double::is_device_memory(buffer.tensors()[0].data, buffer.bytes()));
    for (auto const& tensor : buffer.tensors())
      for (auto const value : tensor[2]) REQUIRE(value == 0);
  }
  auto* const aligned = pinned.allocate(100, 256);
  REQUIRE(reinterpret_cast<std::uintptr_t>(aligned) % 256 == 0);
  fssdp::cuda_pinned_memory{}.deallocate(aligned, 100, 256);
  auto* const none = pinned.allocate(0);
  REQUIRE(none != nullptr);
  pinned.deallocate(none, 0);
  REQUIRE(gpu_double::live_allocations() == before);
  REQUIRE(pinned == fssdp::cuda_pinned_memory{});
  REQUIRE(pinned != *std::pmr::new_delete_resource());
  REQUIRE_THROWS_AS(pinned.allocate(1, 512), fssdp::argument_error);
  REQUIRE_THROWS_AS(pinned.allocate(std::size_t{1} << 50U), fssdp::out_of_memory);
  REQUIRE_THROWS_WITH(
      pinned.allocate(std::size_t{1} << 50U),
      mentions("rank 3 wants 1125899906842624 bytes of pinned host memory for a resource"));
}

TEST_CASE("a shard in host memory that is not pinned is detected") {
  gpu_double::reset({.only_device_memory = true});
  auto const of = support::everywhere_plan{2};
  peer_tests::on_devices({.ranks = 2}, [&](peer_communicator& comm) {
    auto mine = peer_tests::everywhere_buffers{of, comm.rank()};
    mine.gather_and_reduce(comm, of.plan);
    comm.synchronize();
  });
  REQUIRE(!gpu_double::violations().empty());
}

TEST_CASE("a copy between devices of host memory that is not pinned is detected") {
  gpu_double::reset({.only_device_memory = true});
  auto host = std::array<std::byte, 8>{};
  auto const device = fssdp::cuda_memory{host.size()};
  auto const stream = fssdp::make_cuda_stream();
  auto const copy = [&](cudaMemcpyKind kind) {
    REQUIRE(cudaMemcpyAsync(device.bytes().data(), host.data(), host.size(), kind, stream.get()) ==
            cudaSuccess);
    return gpu_double::violations().size();
  };
  REQUIRE(copy(cudaMemcpyHostToDevice) == 0);
  REQUIRE(copy(cudaMemcpyDeviceToDevice) == 1);
}

TEST_CASE("the README says which extras communicators have between devices of a process") {
  gpu_double::reset();
  auto extras = std::vector<std::string>{};
  peer_tests::on_devices({.ranks = 1},
                         [&](peer_communicator& comm) { extras = support::extras_of(comm); });
  REQUIRE(support::extras_in_readme("peer_communicator") == extras);
}
